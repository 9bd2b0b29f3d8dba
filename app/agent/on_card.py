"""What news about a card mean: its ruling, its engine, its tasks.

Owns: their handlers. Must not: do I/O; plan what comes next.
"""

from __future__ import annotations

from app.agent.events import (
    CardFound,
    EngineDied,
    EngineDone,
    EngineReady,
    EngineRefused,
    EngineStopped,
    RulingChanged,
    SubmitDeferred,
    TaskRefused,
)
from app.agent.model import CardState, Model
from app.agent.transitions import Output, give_back, has_failed, lab_at_fault

__all__ = [
    "card_found",
    "engine_died",
    "engine_done",
    "engine_ready",
    "engine_refused",
    "engine_stopped",
    "ruling_changed",
    "submit_deferred",
    "task_refused",
]


def card_found(model: Model, event: CardFound, output: Output) -> None:
    if event.card not in model.cards:
        model.cards[event.card] = CardState(event.card, event.kind, idle_since_s=model.now_s)


def ruling_changed(model: Model, event: RulingChanged, output: Output) -> None:
    card = model.cards[event.card]
    card.ruling = event.ruling
    card.is_draining = event.is_draining
    card.is_drained = False
    card.gives_up_grants = event.gives_up_grants
    card.duty_percent = event.duty_percent
    if card.may_run and not card.is_draining:
        card.rest_until_s = 0.0
        has_grant = any(grant.card == event.card for grant in model.grants.values())
        if not has_grant and model.contact_at_s is not None and not model.is_coordinator_away:
            model.contact_at_s, model.contacts_in_vain = model.now_s, 0


def engine_ready(model: Model, event: EngineReady, output: Output) -> None:
    card = model.cards[event.card]
    if card.engine == "starting":
        card.engine, card.engine_percent = "ready", 100
        card.is_measured = True
        card.idle_since_s = model.now_s
        output.say("engine_ready", card=event.card)


def engine_refused(model: Model, event: EngineRefused, output: Output) -> None:
    card = model.cards[event.card]
    card.engine, card.lab, card.is_frozen = "absent", None, False
    card.rest_until_s = model.now_s + event.retry_s
    for lease in model.on_card(event.card):
        give_back(lease, "engine_failed", output, code=event.code)
    output.say("engine_refused", card=event.card, code=event.code)


def engine_done(model: Model, event: EngineDone, output: Output) -> None:
    lease = model.leases.get(event.lease)
    if lease is not None and lease.stage == "submitted":
        lease.stage = "computed"
        model.cards[event.card].failures = 0
        model.grants[lease.grant].faults = 0
        _undefer(model, event.card)


def task_refused(model: Model, event: TaskRefused, output: Output) -> None:
    lease = model.leases.get(event.lease)
    if lease is None or lease.stage != "submitted":
        return
    _undefer(model, event.card)
    if event.is_unfit:
        give_back(lease, "does_not_fit", output, code=event.code)
        return
    give_back(lease, "engine_failed", output, code=event.code)
    if event.is_nonsense:
        lab_at_fault(model, lease.grant, event.code, output)
    else:
        has_failed(model, model.cards[event.card], output)


def submit_deferred(model: Model, event: SubmitDeferred, output: Output) -> None:
    lease = model.leases.get(event.lease)
    if lease is None or lease.stage != "submitted":
        return
    lease.stage = "ready"
    if model.submitted(event.card):
        lease.is_deferred = True
    else:  # nothing else is in the arena, so it will never fit
        give_back(lease, "does_not_fit", output, code="does_not_fit")


def _undefer(model: Model, card: int) -> None:
    for lease in model.on_card(card):
        lease.is_deferred = False


def engine_died(model: Model, event: EngineDied, output: Output) -> None:
    card = model.cards[event.card]
    card.engine, card.lab, card.is_frozen = "absent", None, False
    queue = model.submitted(event.card)
    for lease in queue:
        lease.stage = "ready"
    if queue:  # the one that ran is the likeliest cause; the others have not begun
        give_back(queue[0], "engine_failed", output, code=event.code)
    _undefer(model, event.card)
    output.say("engine_died", card=event.card, code=event.code)
    has_failed(model, card, output)


def engine_stopped(model: Model, event: EngineStopped, output: Output) -> None:
    card = model.cards[event.card]
    card.engine, card.lab, card.is_frozen = "absent", None, False
    for lease in model.submitted(event.card):
        lease.stage = "ready"
    _undefer(model, event.card)
