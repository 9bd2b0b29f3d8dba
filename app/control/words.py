"""Words for people: one sentence for every code that the agent sends.

Owns: the English table, which translations key on. Must not: be asked by anything that decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from app.control.messages import CardItem, ReasonItem
from gpugoblin.units import format_bytes, format_seconds

__all__ = ["LINES", "REASONS", "card_sentence", "clock_time", "line", "reason", "reasons"]

REASONS: Final[Mapping[str, str]] = {
    "lending": "nothing forbids it",
    "owner_paused": "you paused it",
    "owner_finishing": "you asked for the running task to be the last one",
    "owner_finished": "you asked it to finish, and it has",
    "owner_stopped": "you stopped lending",
}

_GIVEN_BACK: Final[Mapping[str, str]] = {
    "owner": "because you want the card",
    "does_not_fit": "because it does not fit into the memory that you lend",
    "engine_failed": "because the engine could not compute it",
    "inputs_missing": "because its inputs could not be had",
    "shutdown": "because the agent ends",
}

_DOING: Final[Mapping[str, str]] = {
    "computing": "computing",
    "fetching": "fetching the inputs of its next task",
    "waiting": "waiting for work",
    "resting": "resting after failures",
    "refused": "not lending",
    "stopped": "not lending",
}

LINES: Final[Mapping[str, str]] = {
    "agent_started": "The agent runs. State: {state}. Control: {control}.",
    "agent_ends": "Ending: engines stop, leases go back to their labs.",
    "agent_ended": "Ended. {left} leases are left for the next start to give back.",
    "cache_discarded": "Discarded {bytes} of cached inputs from the last run: their key is gone.",
    "leases_recalled": "Giving back {count} leases that the last run held.",
    "enrol_code": "To enroll this device, approve the code {user_code} at the coordinator. Its key"
    " has the fingerprint {fingerprint}; the code is good for {minutes} minutes.",
    "enrolled": "This device is enrolled.",
    "enrol_failed": "Enrolling failed: {why}",
    "coordinator_away": "The coordinator does not answer; grants that are held go on. {why}",
    "coordinator_refuses": "The coordinator refuses; grants that are held go on. {why}",
    "coordinator_back": "The coordinator answers again.",
    "grant_taken": "Card {card}: granted to a lab for {remaining}.",
    "grant_refused": "A grant was not taken: {why}",
    "grant_ended": "Card {card}: the grant has ended ({why}).",
    "grant_given_up": "Card {card}: the grant is given up.",
    "lab_away": "A lab does not answer; trying again in {retry}. {why}",
    "lab_shunned": "A lab sent too much that is false; taking nothing from it for {rest}. {why}",
    "lease_given_back": "A task goes back to its lab {because}.",
    "result_sent": "A result was sent; the lab checks it. From now on one line a minute.",
    "results_sent": "In the last {span}: {sent}.",
    "result_late": "A result was sent too late to be used.",
    "result_cancelled": "A result was sent, but its job had been cancelled.",
    "result_refused": "A lab did not take a result: {why}",
    "engine_ready": "Card {card}: the engine is ready, walled in at the level {level}.",
    "engine_refused": "Card {card}: not lending. {why} {fix}",
    "engine_died": "Card {card}: the engine ended by itself: {why}",
    "card_rests": "Card {card}: {failures} failures in a row; resting for {rest}.",
    "card_lends": "Card {card}: lending, {because}.",
    "card_stops": "Card {card}: not lending, {because}{until}.",
    "card_finishes": "Card {card}: finishing, {because}.",
    "card_freezes": "Card {card}: frozen, {because}.",
    "card_throttles": "Card {card}: lending slowly, {because}.",
    "failed": "{why} {fix}",
}


def reason(item: ReasonItem) -> str:
    """The words of a reason; an unknown code is shown as it is."""
    template = REASONS.get(item.code, item.code.replace("_", " "))
    return template.format_map({name: value for name, value in item.fields.items()})


def reasons(items: tuple[ReasonItem, ...]) -> str:
    """All reasons in one clause."""
    return "because " + " and ".join(reason(item) for item in items) if items else ""


def line(code: str, fields: Mapping[str, object]) -> str:
    """One line for people. Fields in seconds and bytes are written with their units.

    Raises:
        LookupError: the code or a field is not declared: a programming error.
    """
    shown: dict[str, object] = dict(fields)
    for name, value in fields.items():
        if name.endswith("_s") and isinstance(value, (int, float)):
            shown[name.removesuffix("_s")] = format_seconds(float(value))
        elif name == "bytes" and isinstance(value, int):
            shown[name] = format_bytes(value)
    if code == "lease_given_back":
        shown["because"] = _GIVEN_BACK[str(fields["reason"])]
    return LINES[code].format_map(shown).strip()


def clock_time(moment_s: float) -> str:
    """The time of day of a moment, by this machine's clock."""
    return datetime.fromtimestamp(moment_s).strftime("%H:%M:%S")


def card_sentence(card: CardItem, now_s: float) -> str:
    """What a card does and why, in one sentence. `now_s`: Unix seconds."""
    doing = _DOING[card.doing]
    if card.doing == "refused":
        return f"{doing}: {card.why.replace('_', ' ')}. {card.fix}"
    if card.doing == "waiting":
        return f"{doing}{_asks(card, now_s)}"
    until = "" if card.until_s is None else f", until {clock_time(card.until_s)}"
    return f"{doing}, {reasons(card.reasons)}{until}"


def _asks(card: CardItem, now_s: float) -> str:
    if not card.asks:
        return ""
    whom = {"lab": "its lab", "coordinator": "the coordinator"}[card.asks]
    wait_s = 0.0 if card.asks_at_s is None else card.asks_at_s - now_s
    if wait_s < 0.5:
        return f", asks {whom} now"
    return f", asks {whom} again in {format_seconds(max(1, round(wait_s)))}"
