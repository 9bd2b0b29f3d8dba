"""Steps that several events share: give a lease back, drop a lease, drop a grant, count a failure.

Owns: these steps and the output of one batch. Must not: decide when they happen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from app.agent.instructions import (
    AbandonReason,
    CancelTask,
    DropGrant,
    DropLease,
    ForgetLease,
    Instruction,
    Say,
)
from app.agent.model import ON_CARD, CardState, LeaseState, Model
from gpugoblin.ids import GrantId, LeaseId

__all__ = ["Output", "drop_grant", "drop_lease", "give_back", "has_failed", "lab_at_fault"]


@dataclass(slots=True)
class Output:
    """The instructions of one batch, each stamped with the stimulus of the event at hand."""

    stimulus: str = ""
    instructions: list[Instruction] = field(default_factory=list)

    def add(self, instruction: Instruction) -> None:
        self.instructions.append(msgspec.structs.replace(instruction, stimulus=self.stimulus))

    def say(self, words: str, /, **fields: str | int | float) -> None:
        self.add(Say(code=words, fields=fields))


def give_back(lease: LeaseState, reason: AbandonReason, output: Output, code: str = "") -> None:
    """Marks a lease to be abandoned in the next exchange, and takes it off the card."""
    if lease.stage in ("giving_back", "abandoning"):
        return
    if lease.stage == "submitted":
        output.add(CancelTask(card=lease.card, lease=lease.lease))
    lease.stage = "giving_back"
    lease.reason = reason
    lease.is_moving = False
    output.add(DropLease(lease=lease.lease))
    output.say("lease_given_back", reason=reason, code=code)


def drop_lease(model: Model, name: LeaseId, output: Output) -> None:
    """Forgets a lease whose end the lab knows. Unknown leases are not an error."""
    lease = model.leases.pop(name, None)
    if lease is None:
        return
    if lease.stage == "submitted":
        output.add(CancelTask(card=lease.card, lease=name))
    if lease.stage not in ("giving_back", "abandoning"):
        output.add(DropLease(lease=name))
    output.add(ForgetLease(lease=name))
    card = model.cards[lease.card]
    if lease.stage in ON_CARD and not model.on_card(lease.card):
        card.idle_since_s = model.now_s


def drop_grant(model: Model, name: GrantId, code: str, output: Output) -> None:
    """Forgets a grant and its leases: the lab takes nothing under it any more."""
    for lease in model.of_grant(name):
        drop_lease(model, lease.lease, output)
    grant = model.grants.pop(name)
    card = model.cards[grant.card]
    if card.grant == name:
        card.grant = None
    output.add(DropGrant(grant=name))
    output.say("grant_ended", card=grant.card, code=code)


def has_failed(model: Model, card: CardState, output: Output) -> None:
    """Counts a failure of a card: it waits longer after each, and rests after several."""
    limits = model.limits
    card.failures += 1
    wait_s = limits.restart_s * 2.0 ** min(card.failures - 1, 8)
    if card.failures >= limits.failures_before_rest:
        wait_s = limits.rest_s
        output.say("card_rests", card=card.card, failures=card.failures, rest_s=round(wait_s))
    card.rest_until_s = model.now_s + wait_s


def lab_at_fault(model: Model, name: GrantId, code: str, output: Output) -> None:
    """Counts a lie or nonsense of a lab; after several in a row it is shunned for a while."""
    grant = model.grants.get(name)
    if grant is None:
        return
    grant.faults += 1
    if grant.faults >= model.limits.faults_before_shunned:
        model.shunned_until_s[grant.lab] = model.now_s + model.limits.rest_s
        output.say("lab_shunned", code=code, rest_s=round(model.limits.rest_s))
        for each in [each.grant for each in model.grants.values() if each.lab == grant.lab]:
            drop_grant(model, each, "lab_shunned", output)
