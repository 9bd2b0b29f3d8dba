"""What news from the coordinator and from the journal mean.

Owns: the handlers of enrolment, contact and recall. Must not: do I/O; plan what comes next.
"""

from __future__ import annotations

from app.agent.events import ContactFailed, ContactReply, Enrolled, GrantNews, LabRefused, Recalled
from app.agent.instructions import ForgetLease, OpenGrant
from app.agent.model import GrantState, LeaseState, Model
from app.agent.transitions import Output, drop_grant

MOST_DOUBLINGS = 10

__all__ = ["contact_failed", "contact_reply", "enrolled", "lab_refused", "recalled"]


def recalled(model: Model, event: Recalled, output: Output) -> None:
    for news in event.grants:
        _open_grant(model, news, output)
    for lease, grant in event.leases:
        held = model.grants.get(grant)
        if held is None:
            output.add(ForgetLease(lease=lease))
            continue
        model.leases_seen += 1
        model.leases[lease] = LeaseState(
            lease, grant, held.card, model.leases_seen, held.until_s, stage="giving_back"
        )
        model.leases[lease].reason = "shutdown"


def _open_grant(model: Model, news: GrantNews, output: Output) -> None:
    known = news.grant in model.grants
    if known or news.card not in model.cards or news.remaining_s <= 0:
        return
    horizon_s = model.contact_interval_s + model.limits.renew_before_s
    for grant in model.grants.values():
        is_same = grant.lab == news.lab and grant.card == news.card
        if is_same and grant.until_s - model.now_s > horizon_s:
            return  # a second grant for the same lab is of no use yet
    if model.now_s < model.shunned_until_s.get(news.lab, 0.0):
        return
    model.grants[news.grant] = GrantState(
        news.grant, news.lab, news.card, model.now_s + news.remaining_s, news.max_leases
    )
    output.add(OpenGrant(grant=news.grant))
    output.say("grant_taken", card=news.card, remaining_s=round(news.remaining_s))


def contact_reply(model: Model, event: ContactReply, output: Output) -> None:
    model.is_contacting = False
    model.contact_interval_s = event.next_contact_s
    wait_s = event.next_contact_s
    if model.is_coordinator_away:
        model.is_coordinator_away = False
        output.say("coordinator_back")
    for grant in event.revoked:
        if grant in model.grants:
            drop_grant(model, grant, "grant_revoked", output)
    for news in event.grants:
        card = model.cards.get(news.card)
        if card is not None and card.may_run and not model.is_ending:
            _open_grant(model, news, output)
    may_run = any(card.may_run for card in model.cards.values())
    model.contacts_in_vain = model.contacts_in_vain + 1 if may_run and not model.grants else 0
    if model.contacts_in_vain:
        # A device that has just come, or come back, is not to sit idle for minutes.
        doublings = min(model.contacts_in_vain - 1, MOST_DOUBLINGS)
        wait_s = min(wait_s, model.limits.eager_s * 2.0**doublings)
    model.contact_at_s = model.now_s + wait_s


def lab_refused(model: Model, event: LabRefused, output: Output) -> None:
    for grant in [each.grant for each in model.grants.values() if each.lab == event.lab]:
        drop_grant(model, grant, "lab_refused", output)


def contact_failed(model: Model, event: ContactFailed, output: Output) -> None:
    model.is_contacting = False
    model.contact_at_s = model.now_s + event.retry_s
    if not model.is_coordinator_away:
        model.is_coordinator_away = True
        refuses = event.code == "peer_refused"
        output.say("coordinator_refuses" if refuses else "coordinator_away", code=event.code)


def enrolled(model: Model, event: Enrolled, output: Output) -> None:
    if model.contact_at_s is None:
        model.contact_at_s, model.contacts_in_vain = model.now_s, 0
