"""What the control socket shows: the machine's state as items. Owns that mapping alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from app.agent.fleet import Card
from app.agent.model import CardState, GrantState, Model
from app.agent.network import Totals
from app.control.messages import (
    AgentItem,
    CardItem,
    GrantItem,
    Item,
    LeaseItem,
    ProbeItem,
    ReasonItem,
    SensorItem,
    TotalsItem,
)
from app.policy.combine import CardRuling
from app.policy.snapshot import CardFacts
from app.probes.board import Report
from gpugoblin.ids import GrantId
from gpugoblin.wire.messages.contact import GrantOffer

__all__ = ["Facts", "items", "probe_items", "reason_items"]

Asks = Literal["", "lab", "coordinator"]
Doing = Literal["computing", "fetching", "waiting", "resting", "refused", "stopped"]
AgentWord = Literal["starting", "not_enrolled", "working", "coordinator_away", "ending"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the shell knows beside the machine. `wall_minus_monotonic_s` turns its moments into
    dates."""

    build: str
    since_s: float
    coordinator: str
    state: AgentWord
    user_code: str
    fingerprint: str
    wall_minus_monotonic_s: float
    cache_bytes: int
    profile: str = "away"
    settings_revision: int = 0
    settings_fault: str = ""
    day_bytes: int = 0
    energy_wh: float = 0.0


def items(
    model: Model,
    cards: Mapping[int, Card],
    rulings: Mapping[int, CardRuling],
    totals: Totals,
    facts: Facts,
    seen: Mapping[int, CardFacts] | None = None,
    limits: Callable[[CardFacts], Mapping[str, float]] = lambda _: {},
    caps: Callable[[CardFacts], int] = lambda _: 0,
    offers: Mapping[GrantId, GrantOffer] | None = None,
) -> tuple[Item, ...]:
    """Everything there is to see of the machine, the agent first.

    Args:
        seen: what the probes say of the cards, by number.
        limits: at which temperature each part of a card stops.
        caps: how many watts a card may draw; 0 for no limit.
        offers: as the coordinator made them: they name the labs.
    """
    told = seen or {}
    offset_s = facts.wall_minus_monotonic_s
    contact_s = model.contact_at_s
    shown: list[Item] = [
        AgentItem(
            "agent",
            facts.build,
            os.getpid(),
            facts.since_s,
            facts.coordinator,
            facts.state,
            facts.user_code,
            facts.fingerprint,
            None if contact_s is None else round(contact_s + offset_s, 1),
            facts.profile,
            facts.settings_revision,
            facts.settings_fault,
        )
    ]
    for number, state in model.cards.items():
        item = _card(model, state, cards[number], rulings.get(number), offset_s)
        if number in told:
            item = _with_facts(item, told[number], limits(told[number]), caps(told[number]))
        shown.append(item)
    for grant in model.grants.values():
        until_s = round(grant.until_s + offset_s, 1)
        name, words = _public(offers, grant)
        shown.append(GrantItem(grant.grant, grant.lab, grant.card, until_s, name, words))
    for lease in model.leases.values():
        shown.append(LeaseItem(lease.lease, lease.card, lease.stage))
    shown.append(
        TotalsItem(
            "totals",
            totals.results_sent,
            totals.leases_given_back,
            totals.bytes_received,
            totals.bytes_sent,
            facts.cache_bytes,
            facts.day_bytes,
            round(facts.energy_wh, 2),
            round(totals.computed_s, 1),
            round(totals.lost_s, 1),
        )
    )
    return tuple(shown)


def _public(offers: Mapping[GrantId, GrantOffer] | None, grant: GrantState) -> tuple[str, str]:
    """A lab's name and words, without what could move a reader's cursor."""
    offer = (offers or {}).get(grant.grant)
    if offer is None:
        return "", ""
    return offer.lab_name or "", _plain(offer.lab_words)


def _plain(text: str) -> str:
    return "".join(filter(str.isprintable, " ".join(text.split())))


def _with_facts(
    item: CardItem, facts: CardFacts, limits: Mapping[str, float], cap_w: int
) -> CardItem:
    sensors = tuple(
        SensorItem(each.label[:1000], each.temperature_c, limits.get(each.part))
        for each in (facts.sensors or ())[:32]
        if math.isfinite(each.temperature_c)
    )
    return msgspec.structs.replace(
        item,
        sensors=sensors,
        fan_rpm=facts.fan_rpm,
        power_w=facts.power_w,
        memory_bytes=facts.memory_bytes,
        memory_used_bytes=facts.memory_used_bytes,
        cap_w=cap_w or None,
    )


def probe_items(reports: Iterable[Report]) -> tuple[ProbeItem, ...]:
    """What the probes say of themselves."""
    return tuple(
        ProbeItem(
            f"probe-{each.name}", each.name, each.health, each.source[:1000], each.line[:1000]
        )
        for each in reports
    )


def reason_items(ruling: CardRuling) -> tuple[ReasonItem, ...]:
    """The reasons of a ruling for the wire."""
    return tuple(
        ReasonItem(reason.code, dict(reason.fields), reason.until_s) for reason in ruling.reasons
    )


def _card(
    model: Model, state: CardState, card: Card, ruling: CardRuling | None, offset_s: float
) -> CardItem:
    rates, refusal = card.engine.rates, card.engine.refusal
    doing = _doing(model, state, refusal is not None)
    until_s = None if ruling is None else ruling.until_s
    asks, asks_at_s = _next_question(model, state) if doing == "waiting" else ("", None)
    if doing == "resting":
        until_s = round(state.rest_until_s + offset_s, 1)
    return CardItem(
        key=f"card-{state.card}",
        card=state.card,
        kind=state.kind,
        ruling=state.ruling,
        reasons=() if ruling is None else reason_items(ruling),
        until_s=until_s,
        is_draining=state.is_draining,
        engine=state.engine,
        doing=doing,
        sandbox_level=card.engine.level,
        lab=state.lab or "",
        queued=len(model.submitted(state.card)),
        done=card.done,
        failures=state.failures,
        flops_per_s=0.0 if rates is None else float(f"{rates.flops_per_s:.3g}"),
        why="" if refusal is None else refusal.code,
        fix="" if refusal is None else refusal.next_step[:1000],
        asks=asks,
        asks_at_s=None if asks_at_s is None else round(asks_at_s + offset_s, 1),
        identity=card.identity[:64],
        name="Processor" if card.found is None else card.found.name[:64],
        duty_percent=state.duty_percent,
    )


def _next_question(model: Model, state: CardState) -> tuple[Asks, float | None]:
    """Whom a waiting card asks for work next, and when; now, while a question is on its way."""
    if not state.is_measured or state.is_draining:
        return "", None
    grants = [grant for grant in model.grants.values() if grant.card == state.card]
    if grants:
        is_asking = any(grant.asking for grant in grants)
        moment_s = model.now_s if is_asking else min(grant.ask_at_s for grant in grants)
        return "lab", moment_s
    if model.is_contacting:
        return "coordinator", model.now_s
    return ("coordinator", model.contact_at_s) if model.contact_at_s is not None else ("", None)


def _doing(model: Model, state: CardState, is_refused: bool) -> Doing:
    if not state.may_run:
        return "stopped"
    if model.submitted(state.card):
        return "computing"
    if is_refused and state.engine == "absent":
        return "refused"
    if state.engine == "absent" and model.now_s < state.rest_until_s:
        return "resting"
    return "fetching" if model.on_card(state.card) else "waiting"
