"""Words for people: one sentence for every code that the agent sends.

Owns: the English table, which translations key on; sentences are whole templates, since languages
order their words differently. Must not: be asked by anything that decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from app.control.messages import CardItem, ReasonItem
from app.control.texts import _
from gpugoblin.units import format_bytes, format_seconds

__all__ = [
    "DAYS",
    "LINES",
    "REASONS",
    "card_sentence",
    "clock_time",
    "ends",
    "line",
    "reason",
    "reasons",
    "when",
    "why",
    "why_sentence",
]

REASONS: Final[Mapping[str, str]] = {
    "lending": "nothing forbids it",
    "owner_paused": "you paused it",
    "owner_finishing": "you asked for the running task to be the last one",
    "owner_finished": "you asked it to finish, and it has",
    "owner_stopped": "you stopped lending",
    "card_unusable": "the card cannot be used ({why})",
    "card_not_chosen": "this card is not among those that you lend",
    "machine_sleeps": "the machine goes to sleep",
    "away": "nobody has used the machine since {last_at} ({source})",
    "never_used": "nobody uses the machine ({source})",
    "in_use": "the machine is in use ({source})",
    "kept_awake": "{program} keeps the screen awake",
    "idle_unknown": "it is not known whether the machine is in use: {why}",
    "game_runs": "a game runs ({games})",
    "program_runs": "{programs} runs, which is on your list",
    "full_screen": "{program} fills the screen",
    "play_unknown": "it is not known whether a game runs: {why}",
    "card_used": "{programs} uses the card",
    "lent_by_another": "another gpugoblin lends this card ({holder})",
    "card_memory_short": "others need the card's memory, of which you lend {most_percent:g} %",
    "foreign_unknown": "it is not known who else uses the card: {why}",
    "processor_needed": "others use more than {limit_percent:g} % of the processor",
    "memory_short": "less than {least} of memory is free",
    "disk_short": "less than {least} of disk is free",
    "load_unknown": "it is not known what others need: {why}",
    "inside_hours": "your hours go on until {ends_at}",
    "hours_end": "your hours end at {ends_at}, so no new task begins",
    "outside_hours": "it is outside your hours",
    "energy_dear": "energy is dear now",
    "dear_soon": "energy is dear from {begins_at} on, so no new task begins",
    "hot": "{sensor} is at its limit of {limit_c:g} °C; it goes on below {resume_c:g} °C",
    "sensor_lies": "{sensor} says {reading_c} °C, which cannot be",
    "sensors_unknown": "the temperatures cannot be read: {why}",
    "fan_fast": "the fan turns faster than {limit_rpm:g} rpm",
    "on_battery": "the machine runs on battery",
    "on_ups": "the machine runs on its emergency supply",
    "saving_power": "the machine is told to save power",
    "lid_closed": "the lid is closed",
    "power_unknown": "it is not known where the power comes from: {why}",
    "power_capped": "the card draws more than {cap_w:g} W",
    "duty": "you lend {percent:g} % of its time",
    "metered": "the network is a metered one",
    "not_wired": "the network is not a cable",
    "day_spent": "today's {limit} of data are used up",
    "month_spent": "this month's {limit} of data are used up",
    "network_unknown": "it is not known what the network costs: {why}",
    "was_needed": "it has only just ended that {was}",
}

_ENDS: Final[Mapping[str, str]] = {
    "owner_paused": "until you resume",
    "owner_finished": "until you resume",
    "owner_stopped": "until you resume",
    "card_unusable": "until it is there again",
    "card_not_chosen": "until you choose it",
    "machine_sleeps": "until it wakes",
    "in_use": "until nobody has used it for a while",
    "kept_awake": "until that ends",
    "game_runs": "until it ends",
    "program_runs": "until it ends",
    "full_screen": "until that ends",
    "card_used": "until it lets the card go",
    "lent_by_another": "until that one lets it go",
    "card_memory_short": "until they have let it go",
    "processor_needed": "until they need less",
    "memory_short": "until more is free",
    "disk_short": "until more is free",
    "energy_dear": "until it is cheaper",
    "outside_hours": "until they begin",
    "hot": "until it has cooled down",
    "sensor_lies": "until the sensor works",
    "fan_fast": "until it turns slower",
    "on_battery": "until it is plugged in",
    "on_ups": "until the mains are back",
    "saving_power": "until you end that",
    "lid_closed": "until you open it",
    "power_capped": "until it draws less",
    "duty": "until you change that",
    "metered": "until the network is another one",
    "not_wired": "until a cable is plugged in",
}
"""What has to happen when no moment is known. What is unknown ends when it is known."""

_GIVEN_BACK: Final[Mapping[str, str]] = {
    "owner": "because you want the card",
    "does_not_fit": "because it does not fit into the memory that you lend",
    "engine_failed": "because the engine could not compute it",
    "inputs_missing": "because its inputs could not be had",
    "shutdown": "because the agent ends",
}

_WHY: Final[Mapping[str, str]] = {
    "RUN": "lending",
    "THROTTLE": "lending slowly",
    "FREEZE": "frozen",
    "STOP": "not lending",
}

_DOING: Final[Mapping[str, str]] = {
    "computing": "computing",
    "fetching": "fetching the inputs of its next task",
    "waiting": "waiting for work",
    "resting": "resting after failures",
    "refused": "not lending",
    "stopped": "not lending",
}

_ASKS: Final = {
    "lab": (", asks its lab now", ", asks its lab again in {time}"),
    "coordinator": (", asks the coordinator now", ", asks the coordinator again in {time}"),
}

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

LINES: Final[Mapping[str, str]] = {
    "agent_started": "The agent runs. State: {state}. Control: {control}.",
    "agent_ends": "Ending: engines stop, leases go back to their labs.",
    "agent_ended": "Ended. {left} leases are left for the next start to give back.",
    "cache_discarded": "Discarded {bytes} of cached inputs from the last run: their key is gone.",
    "leases_recalled": "Giving back {count} leases that the last run held.",
    "enrol_code": "To enroll this device, approve the code {user_code} at the coordinator. Its key"
    " has the fingerprint {fingerprint}; the code is good for {minutes} minutes.",
    "enrolled": "This device is enrolled.",
    "no_coordinator": "No coordinator is named, so nothing is lent: name one in the window, by"
    " `gpugoblin settings coordinator.address=https://...`, or in the settings file.",
    "enrol_failed": "Enrolling failed: {why}",
    "coordinator_away": "The coordinator does not answer; grants that are held go on. {why}",
    "coordinator_refuses": "The coordinator refuses; grants that are held go on. {why}",
    "coordinator_back": "The coordinator answers again.",
    "grant_taken": "Card {card}: granted to a lab for {remaining}.",
    "card_came": "Card {card} was found: {name}.",
    "power_uncapped": "Card {card}: its power limit cannot be set ({why}); it computes half of the"
    " time while it draws more.",
    "card_unfound": "Cards of one driver cannot be lent: {why} {fix}",
    "grant_refused": "A grant was not taken: {why}",
    "lab_refused": "Nothing is computed for {lab}: your settings refuse it.",
    "history_unwritten": "The history cannot be written; lending goes on. {why}",
    "settings_read": "The settings file was read again.",
    "settings_kept": "The settings file is not used; the last good settings hold. {why}",
    "update_there": (
        "Version {version} of gpugoblin is there; this is {own}. Nothing is installed by itself."
    ),
    "update_unclear": "It is not known whether there is a newer gpugoblin. {why}",
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
    template = REASONS.get(item.code)
    if template is None:
        return item.code.replace("_", " ")
    template = _(template)
    shown: dict[str, object] = dict(item.fields)
    for name, value in item.fields.items():
        if isinstance(value, str):
            continue
        if name.endswith("_at_s"):
            shown[name.removesuffix("_s")] = _moment(value)
        elif name.endswith("_bytes"):
            shown[name.removesuffix("_bytes")] = format_bytes(value)
    if item.code == "was_needed":
        fields = {name: value for name, value in item.fields.items() if name != "cause"}
        shown["was"] = reason(ReasonItem(str(item.fields["cause"]), fields))
    try:
        return template.format_map(shown)
    except (LookupError, ValueError):
        return item.code.replace("_", " ")  # from an agent of another version


def ends(item: ReasonItem, now_s: float) -> str:
    """When a reason ends, as far as that is known: `until 22:00`, `until it ends`."""
    if item.until_s is not None:
        return _("until {moment}").format(moment=when(item.until_s, now_s))
    if item.code.endswith("_unknown"):
        return _("until that is known")
    words = _ENDS.get(item.code, "")
    return _(words) if words else ""


def when(moment_s: float, now_s: float) -> str:
    """A moment as people say it: `22:00`, `tomorrow 07:00`, `Sat 10:30`; exact within an hour."""
    moment, now = datetime.fromtimestamp(moment_s), datetime.fromtimestamp(now_s)
    text = moment.strftime("%H:%M:%S" if abs(moment_s - now_s) < 3600 else "%H:%M")
    days = (moment.date() - now.date()).days
    if days == 0:
        return text
    if days == 1:
        return _("tomorrow {time}").format(time=text)
    if 0 < days < 7:
        return f"{_(DAYS[moment.weekday()])} {text}"
    return moment.strftime("%Y-%m-%d %H:%M")


def why(card: CardItem, now_s: float) -> str:
    """One line: what a card does, why, and when that changes."""
    return _("Card {card}: {sentence}").format(card=card.card, sentence=why_sentence(card, now_s))


def why_sentence(card: CardItem, now_s: float) -> str:
    """The same without the card's number."""
    if card.ruling in ("RUN", "THROTTLE") and card.doing in ("refused", "resting"):
        return card_sentence(card, now_s)
    parts = []
    for item in card.reasons:
        end = ends(item, now_s) if item.code != "was_needed" or item.until_s else ""
        parts.append(f"{reason(item)}{f' ({end})' if end else ''}")
    shown = {
        "doing": _("finishing its last task") if card.is_draining else _(_WHY[card.ruling]),
        "reasons": _(" and ").join(parts) or _(REASONS["lending"]),
    }
    if card.ruling == "STOP" and card.until_s is not None and len(card.reasons) > 1:
        moment = when(card.until_s, now_s)
        return _("{doing}, because {reasons}; nothing before {moment}.").format(
            moment=moment, **shown
        )
    return _("{doing}, because {reasons}.").format(**shown)


def _moment(moment_s: float) -> str:
    moment = datetime.fromtimestamp(moment_s)
    return f"{_(DAYS[moment.weekday()])} {moment:%H:%M}"


def reasons(items: tuple[ReasonItem, ...]) -> str:
    """All reasons in one clause."""
    if not items:
        return ""
    return _("because {reasons}").format(reasons=_(" and ").join(reason(item) for item in items))


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
        shown["because"] = _(_GIVEN_BACK[str(fields["reason"])])
    return _(LINES[code]).format_map(shown).strip()


def clock_time(moment_s: float) -> str:
    """The time of day of a moment, by this machine's clock."""
    return datetime.fromtimestamp(moment_s).strftime("%H:%M:%S")


def card_sentence(card: CardItem, now_s: float) -> str:
    """What a card does and why, in one sentence. `now_s`: Unix seconds."""
    doing = _(_DOING[card.doing])
    if card.doing == "refused":
        return f"{doing}: {card.why.replace('_', ' ')}. {card.fix}"
    if card.doing == "waiting":
        return f"{doing}{_asks(card, now_s)}"
    parts = [doing, reasons(card.reasons)]
    if card.until_s is not None:
        parts.append(_("until {moment}").format(moment=clock_time(card.until_s)))
    return ", ".join(part for part in parts if part)


def _asks(card: CardItem, now_s: float) -> str:
    if not card.asks:
        return ""
    wait_s = 0.0 if card.asks_at_s is None else card.asks_at_s - now_s
    now, later = _ASKS[card.asks]
    if wait_s < 0.5:
        return _(now)
    return _(later).format(time=format_seconds(max(1, round(wait_s))))
