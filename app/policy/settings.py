"""The settings of the policy, declared once: validation, file, docs and window derive from this.

Owns: the table `POLICY`. Must not: act on a value; a rule says what its settings do.
"""

from __future__ import annotations

import tomllib
from typing import Final

from app.policy import timetable
from app.policy.choices import PROFILES, own_value
from gpugoblin import settings as declared
from gpugoblin.errors import SettingsError
from gpugoblin.settings import Kind, Setting, Value, declare

__all__ = ["POLICY", "PRICES"]


def _live(
    name: str,
    kind: Kind,
    default: Value,
    unit: str,
    description: str,
    least: float | None = None,
    most: float | None = None,
) -> Setting:
    return Setting(name, kind, default, unit, description, least, most, is_live=True)


def _spans(name: str, description: str) -> Setting:
    return Setting(name, "texts", (), "", description, is_live=True, fault=timetable.fault)


_PRESENCE: Final = (
    Setting(
        "profile",
        "text",
        "away",
        "",
        "When to lend. `away`: only when nobody uses the machine. `nights`: the same, and only from"
        " 22:00 to 07:00. `always`: also while somebody uses it, slowly then. `custom`: as"
        " `away.when_present` and `hours.spans` say; the other profiles decide these two.",
        choices=tuple(PROFILES),
        is_live=True,
    ),
    Setting(
        "away.when_present",
        "text",
        "stop",
        "",
        "What to do while somebody uses the machine: `stop`, `slow` (`duty.present_percent` of the"
        " time) or `go_on`.",
        choices=("stop", "slow", "go_on"),
        is_live=True,
    ),
    _live(
        "away.after_minutes", "int", 5, "minutes",
        "Nobody uses the machine when there was no input for so long: keyboard, mouse, terminals,"
        " remote sessions.", 1, 1440,
    ),
    _live(
        "away.locked_minutes", "int", 1, "minutes",
        "The screen has been locked for so long: nobody uses the machine. 0: locking means"
        " nothing.", 0, 1440,
    ),
    _live(
        "away.films_count", "bool", True, "",
        "A program that keeps the screen awake (a film, a talk) counts as somebody who uses it.",
    ),
    _spans(
        "hours.spans",
        "Lend in these hours only, in local time: `mon-fri 22:00-07:00`, `sat,sun 00:00-24:00`,"
        " `daily 08:00-20:00`; several a day. Empty: at any hour.",
    ),
    _live(
        "hours.wind_down_minutes", "int", 5, "minutes",
        "So long before the hours end no new task begins.", 0, 120,
    ),
    _spans("price.dear_hours", "Do not lend in these hours, in which energy is dear."),
)  # fmt: skip

_HEAT: Final = (
    _live(
        "heat.card_stop_c", "int", 83, "degrees Celsius",
        "A graphics card stops at this temperature.", 30, 120,
    ),
    _live(
        "heat.memory_stop_c", "int", 95, "degrees Celsius",
        "A graphics card stops when its memory or its hottest spot has this temperature.", 30, 120,
    ),
    _live(
        "heat.processor_stop_c", "int", 92, "degrees Celsius",
        "The processor stops at this temperature.", 30, 120,
    ),
    _live(
        "heat.disk_stop_c", "int", 78, "degrees Celsius",
        "Everything stops when a solid-state disk has this temperature.", 30, 120,
    ),
    _live(
        "heat.resume_below_c", "int", 7, "degrees Celsius",
        "What stopped for heat lends again when it is cooler than the limit by this much.", 1, 40,
    ),
    _live(
        "heat.resume_after_s", "int", 60, "seconds",
        "... and has been so for this long.", 0, 3600,
    ),
    _live(
        "heat.fan_stop_rpm", "int", 0, "turns a minute",
        "A card stops when its fan turns so fast. 0: fans may turn as they like.", 0, 20_000,
    ),
)  # fmt: skip

_OTHERS: Final = (
    _live("games.stop", "bool", True, "", "Stop everything while a game runs."),
    _live(
        "games.full_screen", "bool", True, "",
        "Stop everything while a program fills the screen.",
    ),
    _live(
        "games.programs", "texts", (), "",
        "Stop everything while one of these programs runs, by the name of its file.",
    ),
    _live(
        "foreign.stop", "bool", True, "",
        "Stop a graphics card while another program uses it: a game, a colleague's training.",
    ),
    _live(
        "foreign.memory_mib", "int", 300, "MiB",
        "A program uses a card when it has this much of its memory.", 1, 1_000_000,
    ),
    _live(
        "foreign.busy_percent", "int", 10, "percent",
        "... or this much of its time.", 1, 100,
    ),
    _live(
        "foreign.ignore", "texts", (), "",
        "Programs that may use a card beside us, by the name of their file, beside the desktop's"
        " own.",
    ),
    _live(
        "load.processor_percent", "int", 50, "percent",
        "The processor waits while others use so much of it. 100: never.", 5, 100,
    ),
    _live(
        "memory.least_free_mib", "int", 1024, "MiB",
        "Stop when less memory is free for others.", 0, 10_000_000,
    ),
    _live(
        "disk.least_free_mib", "int", 1024, "MiB",
        "Stop when the disk of the cache has less room.", 0, 1_000_000_000,
    ),
    _live(
        "card_memory.most_percent", "int", 70, "percent",
        "Your share of a card's memory that is lent; the card stops when others need so much that"
        " it is not free.", 10, 100,
    ),
    _live(
        "calm.after_s", "int", 15, "seconds",
        "A game, a program or a load has been gone for so long before lending goes on.", 0, 3600,
    ),
)  # fmt: skip

_SUPPLY: Final = (
    _live(
        "battery.stop", "bool", True, "",
        "Stop while the machine runs from a battery or from an emergency supply.",
    ),
    _live(
        "battery.saver_stops", "bool", True, "",
        "Stop while the desktop is told to save power.",
    ),
    _live(
        "battery.lid_stops", "bool", False, "",
        "Stop while the lid is closed: a bag is no place to compute.",
    ),
    _live("network.metered_stops", "bool", True, "", "Stop while the network is a metered one."),
    _live(
        "network.wired_only", "bool", False, "",
        "Stop while the network is not a cable.",
    ),
    _live(
        "network.day_mib", "int", 0, "MiB",
        "Stop when so much was sent and received today. 0: no limit.", 0, 1_000_000_000,
    ),
    _live(
        "network.month_mib", "int", 0, "MiB",
        "Stop when so much was sent and received this month. 0: no limit.", 0, 1_000_000_000,
    ),
    _live(
        "power.cap_w", "int", 0, "watts",
        "A card draws no more: by its driver's limit while it lends where this agent may set that"
        " (NVIDIA, as root), else it computes half of the time while it draws more. 0: no limit.",
        0, 2000,
    ),
    _live(
        "power.cap_percent", "int", 0, "percent",
        "The same as a part of what the card draws at most by its maker's default, for cards of"
        " different size. Where both are given the lower holds. 0: no limit.", 0, 100,
    ),
    _live(
        "duty.percent", "int", 100, "percent",
        "How much of the time a card computes while it lends: quieter and cooler.", 5, 100,
    ),
    _live(
        "duty.present_percent", "int", 30, "percent",
        "The same, while somebody uses the machine and lending goes on slowly.", 5, 100,
    ),
)  # fmt: skip

_WHAT: Final = (
    _live(
        "cards.lend", "texts", (), "",
        "Which cards to lend: numbers, UUIDs or PCI addresses. Empty: all.",
    ),
    _live(
        "labs.accept", "texts", (), "",
        "Compute for these labs only, by the names that `gpugoblin status` shows. Empty: for any.",
    ),
    _live("labs.refuse", "texts", (), "", "Never compute for these labs."),
)  # fmt: skip

PRICES: Final = declare(
    _live(
        "price.per_kwh", "float", 0.3, "of the currency",
        "What a kilowatt-hour costs here, for the history.", 0, 1000,
    ),
    Setting(
        "price.currency", "text", "EUR", "", "The currency of that price.", is_live=True,
        fault=lambda text: "" if text.isalpha() and len(text) <= 8 else "it must be a short word",
    ),
)  # fmt: skip
"""What energy costs; no rule looks at it."""

_BASE: Final = declare(*_PRESENCE, *_HEAT, *_OTHERS, *_SUPPLY, *_WHAT)


def _own_fault(text: str) -> str:
    """Why a text is no card's own value; empty when it is one."""
    try:
        _, name, value = own_value(text)
        setting = declared.find(_BASE, name, "a card's own value")
        setting.check(value, "a card's own value")
    except SettingsError as error:
        return error.what
    except (ValueError, tomllib.TOMLDecodeError, RecursionError) as error:
        return str(error)
    return "" if name not in ("profile", "cards.lend") else f"{name} is for all cards"


POLICY: Final = declare(
    *_BASE,
    Setting(
        "cards.own",
        "texts",
        (),
        "",
        "Other values for one card: its number, UUID or PCI address, then a setting of this table:"
        ' `1 heat.card_stop_c = 70`, `0 hours.spans = ["daily 22:00-07:00"]`.',
        is_live=True,
        fault=_own_fault,
    ),
)
