"""What an agent shows: its items on the control socket, and what its doctor knows already.

Owns: the gathering of facts from the agent's parts. Must not: change any of them.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent.cache import BlobCache
from app.agent.card_proof import LIES
from app.agent.fleet import Fleet
from app.agent.joining import Joining
from app.agent.machine import Machine
from app.agent.network import Network
from app.agent.owner import Owner
from app.agent.settings import Settings
from app.agent.speech import Speech
from app.agent.state import State
from app.agent.surroundings import Surroundings
from app.agent.view import AgentWord, Facts, items, probe_items
from app.control.messages import Finding, Item
from app.policy.choices import Choices
from app.policy.rules.heat import heat_limits
from app.policy.rules.power import cap_of
from app.policy.snapshot import CardFacts
from app.probes.board import Report
from gpugoblin import __version__
from gpugoblin.clock import Clock
from gpugoblin.wire.signing import fingerprint, public_key_bytes

__all__ = ["Seen", "own_findings", "shown_items"]


class Seen(Protocol):
    """What is looked at of an agent."""

    since_s: float
    joining: Joining
    clock: Clock
    key: Ed25519PrivateKey
    stopping: threading.Event
    cache: BlobCache
    machine: Machine
    fleet: Fleet
    owner: Owner
    network: Network
    settings: Settings
    settings_fault: str
    state: State
    speech: Speech
    around: Surroundings


def shown_items(agent: Seen) -> tuple[Item, ...]:
    """Everything there is to see of an agent now."""
    peer = agent.network.coordinator_peer
    facts = Facts(
        f"agent-{__version__}",
        round(agent.since_s, 1),
        "" if peer is None else peer.address,
        _word(agent),
        agent.joining.user_code,
        fingerprint(public_key_bytes(agent.key)),
        agent.clock.wall_s() - agent.clock.monotonic_s(),
        agent.cache.used_bytes,
        agent.settings.text("profile"),
        agent.state.settings_revision,
        agent.settings_fault,
        *agent.around.today(),
    )
    snapshot = agent.around.snapshot()
    shown = items(
        agent.machine.model,
        agent.fleet.cards,
        agent.owner.policy.current,
        agent.network.totals,
        facts,
        {card.card: card for card in snapshot.cards},
        lambda card: heat_limits(agent.owner.choices.of(card)),
        lambda card: cap_of(agent.owner.choices.of(card), card),
        agent.network.offers,
    )
    probes = probe_items(agent.around.board.reports.values())
    return (*shown, *probes, *agent.speech.notices)


def _word(agent: Seen) -> AgentWord:
    model = agent.machine.model
    if agent.stopping.is_set():
        return "ending"
    if not agent.joining.is_enrolled:
        return "not_enrolled"
    if model.is_coordinator_away:
        return "coordinator_away"
    is_measured = any(card.is_measured for card in model.cards.values())
    return "working" if is_measured or not model.cards else "starting"


_KNOWN: Final = {
    "idle": "It is known whether somebody uses the machine",
    "play": "It is known whether a game runs",
    "power": "It is known whether the machine runs on battery",
    "network": "It is known whether the network is metered",
    "load": "It is known what others need of the processor",
    "cards": "The sensors of the cards are read",
}
"""What the doctor says for a probe that has nothing to say itself."""


def _probe_finding(report: Report) -> Finding:
    """What a probe says of itself: what is absent is well."""
    source = f" ({report.source})" if report.source else ""
    words = report.line or f"{_KNOWN.get(report.name, report.name)}{source}."
    is_well = report.health != "unknown"
    fix = "" if is_well else "Nothing is lent while this is unknown; see docs/contributor/rules.md."
    return Finding(f"probe_{report.name}", is_well, words[:1000], fix)


def _power_findings(agent: Seen) -> list[Finding]:
    """What the owner's power limits come to on each card, and where one of them says nothing."""
    found = []
    for card in agent.around.snapshot().cards:
        choices = agent.owner.choices.of(card)
        cap_w = cap_of(choices, card)
        if cap_w:
            words = f"Card {card.card} draws at most {cap_w} W by your settings."
            found.append(Finding("card", True, words))
        if _has_no_default(choices, card):
            words = (
                f"Card {card.card} tells no default power limit, so a percent of it means nothing."
            )
            fix = "Give its limit in watts: `power.cap_w`, or `cards.own` for one card."
            found.append(Finding("card", False, words, fix))
    return found


def _has_no_default(choices: Choices, card: CardFacts) -> bool:
    is_asked = choices.number("power.cap_percent") > 0 and not choices.number("power.cap_w")
    return is_asked and card.kind != "cpu" and not card.trouble and card.default_w is None


def own_findings(agent: Seen) -> tuple[Finding, ...]:
    """What the doctor would look at and a running agent knows already."""
    enrolled = Finding("enrolment", True, "This device is enrolled.")
    if not agent.joining.is_enrolled:
        fix = "Approve the code that is shown."
        if agent.network.coordinator_peer is None:
            fix = "Name a coordinator first."
        enrolled = Finding("enrolment", False, "This device is not enrolled.", fix)
    found = [enrolled, *map(_probe_finding, agent.around.board.reports.values())]
    for card in agent.fleet.cards.values():
        refusal, level = card.engine.refusal, card.engine.level
        if refusal is not None:
            subject = "card" if refusal.code in LIES else "sandbox"
            found.append(Finding(subject, False, refusal.what[:1000], refusal.next_step[:1000]))
        elif level:
            words = f"Card {card.number}: engines run, walled in at the level {level}."
            found.append(Finding("sandbox", True, words))
    return (*found, *_power_findings(agent))
