"""What the state machine remembers: cards, grants, leases.

Owns: the data, simple questions about it, and the invariants. Must not: decide what happens next
(`machine.py` for what an event means, `plan.py` for what can be done now).

A lease goes `fetching -> ready -> submitted -> computed -> committing -> committed -> uploading`
and is then gone; from anywhere it may turn to `giving_back -> abandoning` and be gone. All moments
are on the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from app.agent.events import LeaseInput
from app.agent.instructions import AbandonReason
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId
from gpugoblin.units import MIB

__all__ = [
    "ON_CARD",
    "CardState",
    "EngineState",
    "GrantState",
    "LeaseState",
    "Limits",
    "Model",
    "Stage",
]

Stage = Literal[
    "fetching",
    "ready",
    "submitted",
    "computed",
    "committing",
    "committed",
    "uploading",
    "giving_back",
    "abandoning",
]
EngineState = Literal["absent", "starting", "ready", "stopping"]

ON_CARD: Final[frozenset[Stage]] = frozenset({"fetching", "ready", "submitted"})
"""The stages in which a lease still wants the card; afterwards only the network is needed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How the machine paces itself. Seconds on the monotonic clock.

    Args:
        queue_depth: tasks that lie in the engine at once, the running one included.
        prefetch: leases beyond those, whose inputs are fetched while the engine computes.
        unused_engine_s: an engine without leases is ended after this.
        poll_s: the least wait between two exchanges that brought nothing.
        failures_before_rest: consecutive failures after which a card rests for `rest_s`.
        restart_s: the first wait after a failure; it doubles with each.
        fetch_attempts: tries for a blob before its lease is given back.
        renew_before_s: added to the contact interval: a grant nearer to its end is renewed.
        dry_asks: empty answers after which another grant of the card is used.
        least_grant_s: no new lease is asked for under a grant that ends sooner.
        faults_before_shunned: lies and nonsense in a row after which a lab is shunned for `rest_s`.
        heartbeat_s: a lab whose leases are held is asked this often whether it still wants them.
        eager_s: the longest wait for the second contact of a device without a grant; it doubles
            with each contact in vain, until the coordinator's own pace is shorter.
        kept_bytes: results that wait to be sent; beyond it nothing new is asked for.
    """

    queue_depth: int = 2
    prefetch: int = 2
    unused_engine_s: float = 120.0
    poll_s: float = 0.5
    eager_s: float = 5.0
    failures_before_rest: int = 3
    rest_s: float = 600.0
    restart_s: float = 1.0
    fetch_attempts: int = 3
    renew_before_s: float = 60.0
    dry_asks: int = 3
    least_grant_s: float = 5.0
    faults_before_shunned: int = 3
    kept_bytes: int = 1024 * MIB
    heartbeat_s: float = 10.0


@dataclass(slots=True)
class LeaseState:
    """One lease. `order` counts leases as they came; `exchange` is the one in flight with it."""

    lease: LeaseId
    grant: GrantId
    card: int
    order: int
    until_s: float
    inputs: tuple[LeaseInput, ...] = ()
    output_bytes: int = 0
    stage: Stage = "fetching"
    missing: set[BlobHash] = field(default_factory=set)
    reason: AbandonReason = "owner"
    exchange: int = 0
    is_moving: bool = False
    is_deferred: bool = False
    retry_at_s: float = 0.0


@dataclass(slots=True)
class GrantState:
    """One grant. `asking` and `telling` are the numbers of exchanges in flight, 0 for none.

    `wanting` is the one that asked for `wanted` leases, of which `offered` came; `introducing` the
    one that carried the capabilities. A telling exchange carries commits or gives leases back; it
    may overtake an asking one, which the lab may hold while it has no work.
    """

    grant: GrantId
    lab: LabId
    card: int
    until_s: float
    max_leases: int
    is_introduced: bool = False
    asking: int = 0
    telling: int = 0
    introducing: int = 0
    wanting: int = 0
    wanted: int = 0
    ask_at_s: float = 0.0
    tell_at_s: float = 0.0
    heard_at_s: float = 0.0
    offered: int = 0
    empty_asks: int = 0
    faults: int = 0
    fetching: set[BlobHash] = field(default_factory=set)
    fetch_at_s: dict[BlobHash, float] = field(default_factory=dict)
    fetch_tries: dict[BlobHash, int] = field(default_factory=dict)


@dataclass(slots=True)
class CardState:
    """One card. Until the policy has spoken it is stopped: UNKNOWN never lends.

    `duty_percent` is what the policy wants, `engine_percent` what the engine was told.
    """

    card: int
    kind: Literal["cpu", "vulkan", "cuda"]
    ruling: Literal["RUN", "THROTTLE", "FREEZE", "STOP"] = "STOP"
    is_draining: bool = False
    is_drained: bool = False
    gives_up_grants: bool = False
    engine: EngineState = "absent"
    lab: LabId | None = None
    is_measured: bool = False
    is_frozen: bool = False
    duty_percent: int = 100
    engine_percent: int = 100
    grant: GrantId | None = None
    failures: int = 0
    rest_until_s: float = 0.0
    idle_since_s: float = 0.0

    @property
    def may_run(self) -> bool:
        return self.ruling in ("RUN", "THROTTLE")


@dataclass(slots=True)
class Model:
    """Everything the machine remembers."""

    limits: Limits
    now_s: float = 0.0
    cards: dict[int, CardState] = field(default_factory=dict)
    grants: dict[GrantId, GrantState] = field(default_factory=dict)
    leases: dict[LeaseId, LeaseState] = field(default_factory=dict)
    shunned_until_s: dict[LabId, float] = field(default_factory=dict)
    contact_at_s: float | None = None
    contact_interval_s: float = 60.0
    contacts_in_vain: int = 0
    is_contacting: bool = False
    is_ending: bool = False
    has_ended: bool = False
    is_coordinator_away: bool = False
    exchanges: int = 0
    leases_seen: int = 0

    def of_grant(self, grant: GrantId) -> list[LeaseState]:
        """The leases of a grant, in the order in which they came."""
        return [lease for lease in self.leases.values() if lease.grant == grant]

    def on_card(self, card: int) -> list[LeaseState]:
        """The leases that still want this card, in the order in which they came."""
        return [
            lease for lease in self.leases.values() if lease.card == card and lease.stage in ON_CARD
        ]

    def kept_bytes(self, card: int) -> int:
        """Size of the results of a card that wait to be sent."""
        waiting = ("computed", "committing", "committed", "uploading")
        return sum(
            lease.output_bytes
            for lease in self.leases.values()
            if lease.card == card and lease.stage in waiting
        )

    def submitted(self, card: int) -> list[LeaseState]:
        """The leases in the engine's queue; the first is the one that runs."""
        queue = [lease for lease in self.on_card(card) if lease.stage == "submitted"]
        return sorted(queue, key=lambda lease: lease.order)

    def problems(self) -> Iterator[str]:
        """Every invariant that does not hold, as a sentence. None in a sound machine."""
        for lease in self.leases.values():
            grant = self.grants.get(lease.grant)
            if grant is None:
                yield f"lease {lease.lease} has no grant"
            elif grant.card != lease.card:
                yield f"lease {lease.lease} is on another card than its grant"
            elif lease.stage in ("committing", "abandoning") and lease.exchange != grant.telling:
                yield f"lease {lease.lease} waits for an exchange that is not in flight"
        for card in self.cards.values():
            yield from self._card_problems(card)

    def _card_problems(self, card: CardState) -> Iterator[str]:
        queue = self.submitted(card.card)
        if queue and card.engine != "ready":
            yield f"card {card.card} has submitted tasks and no engine"
        if any(self.grants[lease.grant].lab != card.lab for lease in queue):
            yield f"card {card.card} computes for two labs in one engine"
        if len(queue) > self.limits.queue_depth:
            yield f"card {card.card} has {len(queue)} tasks in its engine"
        if card.ruling == "STOP" or self.is_ending:
            if card.engine in ("starting", "ready"):
                yield f"card {card.card} is stopped and its engine is not"
            if self.on_card(card.card):
                yield f"card {card.card} is stopped and still has leases"
