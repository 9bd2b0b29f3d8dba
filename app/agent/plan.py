"""What can be done now, from the state alone.

Owns: the level-triggered half of the machine: after every batch of events it looks at everything
and emits what is due. Must not: look at events, so that none can be forgotten.
"""

from __future__ import annotations

from typing import Literal

from app.agent.instructions import (
    Contact,
    Drained,
    DropGrant,
    End,
    Exchange,
    Fetch,
    FreezeEngine,
    StartEngine,
    StopEngine,
    SubmitTask,
    ThawEngine,
    ThrottleEngine,
    Upload,
)
from app.agent.model import CardState, GrantState, LeaseState, Model
from app.agent.transitions import Output, drop_grant, give_back

__all__ = ["extend", "next_moment_s"]


def extend(model: Model, output: Output) -> None:
    """Adds to `output` everything that is due at `model.now_s`."""
    if model.has_ended:
        return
    _expire(model, output)
    for card in model.cards.values():
        _obey(model, card, output)
    for card in model.cards.values():
        if card.may_run and not model.is_ending:
            _work(model, card, output)
    for grant in model.grants.values():
        _fetch(model, grant, output)
        _upload(model, grant, output)
        _exchange(model, grant, output)
    _contact(model, output)
    _end(model, output)


def next_moment_s(model: Model) -> float:
    """When the state alone may next call for something (monotonic); an hour off if never."""
    moments = [model.now_s + 3600.0]
    if model.contact_at_s is not None:
        moments.append(model.contact_at_s)
    for grant in model.grants.values():
        moments += [grant.until_s, grant.ask_at_s, grant.tell_at_s, *grant.fetch_at_s.values()]
        moments.append(grant.heard_at_s + model.limits.heartbeat_s)
    for lease in model.leases.values():
        moments += [lease.until_s, lease.retry_at_s]
    for card in model.cards.values():
        moments += [card.rest_until_s, card.idle_since_s + model.limits.unused_engine_s]
    return min(moment for moment in moments if moment > model.now_s)


def _expire(model: Model, output: Output) -> None:
    for grant in list(model.grants.values()):
        if grant.until_s <= model.now_s:
            drop_grant(model, grant.grant, "grant_over", output)
    for lease in model.leases.values():
        # A lease that computes goes on: a late result may still be of use, and the lab decides.
        if lease.until_s <= model.now_s and lease.stage == "fetching":
            give_back(lease, "inputs_missing", output, code="lease_over")


def _obey(model: Model, card: CardState, output: Output) -> None:
    """The owner and the rules come first."""
    if card.ruling == "STOP" or model.is_ending:
        reason: Literal["owner", "shutdown"] = "shutdown" if model.is_ending else "owner"
        for lease in _to_give_back(model, card):
            give_back(lease, reason, output)
        if card.engine in ("starting", "ready"):
            card.engine = "stopping"
            output.add(StopEngine(card=card.card, reason=reason))
        if card.gives_up_grants:
            _give_up_grants(model, card, output)
        return
    if card.is_draining:
        _drain(model, card, output)
    if card.ruling == "FREEZE" and card.kind == "cpu" and card.engine == "ready":
        if not card.is_frozen:
            card.is_frozen = True
            output.add(FreezeEngine(card=card.card))
    elif card.is_frozen:
        card.is_frozen = False
        output.add(ThawEngine(card=card.card))
    if card.engine == "ready" and card.engine_percent != card.duty_percent:
        card.engine_percent = card.duty_percent
        output.add(ThrottleEngine(card=card.card, duty_percent=card.duty_percent))


def _to_give_back(model: Model, card: CardState) -> list[LeaseState]:
    """Of a stopped card: what still needs the card. At the end: all that no exchange is telling."""
    if not model.is_ending:
        return model.on_card(card.card)
    return [
        lease
        for lease in model.leases.values()
        if lease.card == card.card and lease.stage != "committing"
    ]


def _give_up_grants(model: Model, card: CardState, output: Output) -> None:
    for grant in list(model.grants.values()):
        if grant.card == card.card and not model.of_grant(grant.grant):
            del model.grants[grant.grant]
            output.add(DropGrant(grant=grant.grant))
            output.say("grant_given_up", card=card.card)


def _drain(model: Model, card: CardState, output: Output) -> None:
    running = model.submitted(card.card)[:1]
    for lease in model.on_card(card.card):
        if lease not in running:
            give_back(lease, "owner", output)
    if not running and not card.is_drained:
        card.is_drained = True
        output.add(Drained(card=card.card))


def _work(model: Model, card: CardState, output: Output) -> None:
    """Engine and queue of a card that may run."""
    waiting = [lease for lease in model.on_card(card.card) if lease.stage != "submitted"]
    queue = model.submitted(card.card)
    if card.engine == "absent":
        may_start = model.now_s >= card.rest_until_s and not card.is_draining
        if may_start and (waiting or not card.is_measured):
            card.engine = "starting"
            card.lab = model.grants[waiting[0].grant].lab if waiting else None
            output.add(StartEngine(card=card.card, lab=card.lab))
        return
    if card.engine != "ready":
        return
    if not waiting and not queue:
        if model.now_s - card.idle_since_s >= model.limits.unused_engine_s:
            card.engine = "stopping"
            output.add(StopEngine(card=card.card, reason="unused"))
        return
    card.idle_since_s = model.now_s
    ready = sorted(
        (lease for lease in waiting if lease.stage == "ready" and not lease.is_deferred),
        key=lambda lease: lease.order,
    )
    _submit(model, card, ready, len(queue), output)


def _submit(
    model: Model, card: CardState, ready: list[LeaseState], queued: int, output: Output
) -> None:
    for lease in ready:
        lab = model.grants[lease.grant].lab
        if card.lab not in (None, lab):
            if not queued:
                card.engine = "stopping"
                output.add(StopEngine(card=card.card, reason="other_lab"))
            return
        if queued >= model.limits.queue_depth:
            return
        card.lab = lab
        lease.stage = "submitted"
        queued += 1
        output.add(SubmitTask(card=card.card, lease=lease.lease))


def _fetch(model: Model, grant: GrantState, output: Output) -> None:
    leases = [lease for lease in model.of_grant(grant.grant) if lease.stage == "fetching"]
    for lease in sorted(leases, key=lambda each: each.order):
        for each in lease.inputs:
            is_due = grant.fetch_at_s.get(each.blob, 0.0) <= model.now_s
            if each.blob in lease.missing and each.blob not in grant.fetching and is_due:
                grant.fetching.add(each.blob)
                output.add(
                    Fetch(grant=grant.grant, lease=lease.lease, blob=each.blob, nbytes=each.nbytes)
                )


def _upload(model: Model, grant: GrantState, output: Output) -> None:
    for lease in model.of_grant(grant.grant):
        if lease.stage == "uploading" and not lease.is_moving and lease.retry_at_s <= model.now_s:
            lease.is_moving = True
            output.add(Upload(grant=grant.grant, lease=lease.lease))


def _want(model: Model, grant: GrantState) -> int:
    """How many more leases to ask for under this grant now."""
    card = model.cards[grant.card]
    limits = model.limits
    is_able = (
        card.may_run
        and card.is_measured
        and not card.is_draining
        and not model.is_ending
        and model.now_s >= card.rest_until_s
    )
    if not is_able or grant.wanting or _grant_in_use(model, card) != grant.grant:
        return 0
    if model.kept_bytes(card.card) > limits.kept_bytes:
        return 0
    held = model.of_grant(grant.grant)
    room = limits.queue_depth + limits.prefetch - len(model.on_card(card.card))
    return max(0, min(room, grant.max_leases - len(held)))


def _grant_in_use(model: Model, card: CardState) -> str | None:
    """The grant under which a card asks: it changes only when its lab is dry or it ends."""
    live = [
        grant
        for grant in model.grants.values()
        if grant.card == card.card and grant.until_s - model.now_s >= model.limits.least_grant_s
    ]
    if not live:
        card.grant = None
        return None
    current = model.grants.get(card.grant) if card.grant is not None else None
    if current not in live:
        current = None
    if current is None or (
        current.empty_asks >= model.limits.dry_asks and not model.on_card(card.card)
    ):
        best = min(live, key=lambda grant: (grant.empty_asks, -grant.until_s))
        if current is not None and best is not current:
            best.empty_asks = 0
        current = best
    card.grant = current.grant
    return current.grant


def _exchange(model: Model, grant: GrantState, output: Output) -> None:
    held = model.of_grant(grant.grant)
    commits = [lease for lease in held if lease.stage == "computed" and not model.is_ending]
    abandons = [lease for lease in held if lease.stage == "giving_back"]
    has_news = bool(commits or abandons)
    may_tell = model.now_s >= grant.tell_at_s or model.is_ending
    is_telling = has_news and not grant.telling and may_tell
    want = _want(model, grant)
    is_quiet = model.now_s >= grant.heard_at_s + model.limits.heartbeat_s
    awaits = any(lease.stage == "committed" or is_quiet for lease in held)
    is_free = not grant.telling and not grant.asking
    is_due = is_free and model.now_s >= grant.ask_at_s and not model.is_ending
    is_asking = not has_news and is_due and (want or awaits)
    if not (is_telling or is_asking):
        return
    model.exchanges += 1
    number = model.exchanges
    if is_telling:
        grant.telling = number
    else:
        grant.asking = number
    if want:
        grant.wanting, grant.wanted, grant.offered = number, want, 0
    card = model.cards[grant.card]
    introduces = card.is_measured and not grant.is_introduced
    if introduces:
        grant.introducing = number
    for lease in commits:
        lease.stage, lease.exchange = "committing", number
    for lease in abandons:
        lease.stage, lease.exchange = "abandoning", number
    told = {lease.lease for lease in (*commits, *abandons)}
    output.add(
        Exchange(
            grant=grant.grant,
            exchange=number,
            commits=tuple(lease.lease for lease in commits),
            abandons=tuple((lease.lease, lease.reason) for lease in abandons),
            holding=tuple(lease.lease for lease in held if lease.lease not in told),
            want=want,
            introduces=introduces,
        )
    )


def _contact(model: Model, output: Output) -> None:
    if model.is_ending or model.is_contacting or model.contact_at_s is None:
        return
    # A contact says what the cards are, which only a measured engine knows.
    measured = [card.is_measured for card in model.cards.values() if card.may_run]
    is_measured = all(measured) and any(card.is_measured for card in model.cards.values())
    if model.now_s < model.contact_at_s or not is_measured:
        return
    horizon_s = model.contact_interval_s + model.limits.renew_before_s
    wants = [card.card for card in model.cards.values() if _wants_grant(model, card, horizon_s)]
    model.is_contacting = True
    output.add(Contact(holding=tuple(model.grants), wants=tuple(wants)))


def _wants_grant(model: Model, card: CardState, horizon_s: float) -> bool:
    if not card.may_run or card.is_draining or not card.is_measured:
        return False
    lasting = [
        grant
        for grant in model.grants.values()
        if grant.card == card.card and grant.until_s - model.now_s > horizon_s
    ]
    return all(grant.empty_asks >= model.limits.dry_asks for grant in lasting)


def _end(model: Model, output: Output) -> None:
    if not model.is_ending or model.has_ended:
        return
    is_busy = any(card.engine != "absent" for card in model.cards.values())
    # Leases that are still to be told, or are being told, hold the end up; the shell limits that.
    is_telling = any(grant.telling for grant in model.grants.values())
    if not is_busy and not is_telling and not model.leases:
        model.has_ended = True
        output.add(End())
