"""What holds right now in the matter of a group of settings: pure, no Qt.

Owns: which reasons belong to which group of the page When. Must not: know a rule; it repeats what
the agent says of its cards and probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from app.control import words
from app.control.messages import CardItem, Item, ProbeItem, ReasonItem
from app.control.texts import _
from app.ui.facts import cards_of

__all__ = ["GROUPS", "live_line"]

GROUPS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "Idle": ("idle", frozenset({"away", "never_used", "in_use", "kept_awake", "idle_unknown"})),
    "Hours": (
        "",
        frozenset({"inside_hours", "hours_end", "outside_hours", "energy_dear", "dear_soon"}),
    ),
    "Games and other programs": (
        "play",
        frozenset({
            "game_runs", "program_runs", "full_screen", "play_unknown", "card_used",
            "foreign_unknown", "card_memory_short",
        }),
    ),
    "Heat": ("cards", frozenset({"hot", "sensor_lies", "sensors_unknown", "fan_fast"})),
    "Battery": (
        "power",
        frozenset({"on_battery", "on_ups", "saving_power", "lid_closed", "power_unknown"}),
    ),
    "Network": (
        "network",
        frozenset({"metered", "not_wired", "day_spent", "month_spent", "network_unknown"}),
    ),
}  # fmt: skip
"""The probe of each group, and the reasons that come from its settings."""


def live_line(group: str, items: Mapping[str, Item], now_s: float) -> str:
    """What a group's rules see now; empty for a group that nothing is seen of, and for no agent.

    Args:
        group: the English title of a group of settings.
        items: the agent's, by key.
        now_s: Unix seconds.
    """
    if group not in GROUPS or not items:
        return ""
    probe_name, codes = GROUPS[group]
    cards = cards_of(items)
    found = dict.fromkeys(
        _clause(reason, now_s) for card in cards for reason in card.reasons
        if _cause(reason) in codes
    )  # fmt: skip
    probe = items.get(f"probe-{probe_name}")
    parts = list(_temperatures(cards)) if group == "Heat" else []
    if found:
        parts.append(_("Right now: {reasons}.").format(reasons=_(" and ").join(found)))
    elif isinstance(probe, ProbeItem) and probe.health == "unknown":
        parts.append(_("Right now this is not known: {why}.").format(why=probe.line.rstrip(".")))
    else:
        parts.append(_("Right now nothing of this stops lending."))
    return "\n".join(parts)


def _cause(reason: ReasonItem) -> str:
    """What lies behind a reason that is over but still counts."""
    return str(reason.fields.get("cause", "")) if reason.code == "was_needed" else reason.code


def _clause(reason: ReasonItem, now_s: float) -> str:
    end = words.ends(reason, now_s)
    return f"{words.reason(reason)}{f' ({end})' if end else ''}"


def _temperatures(cards: list[CardItem]) -> Iterator[str]:
    for card in cards:
        if card.sensors:
            seen = ", ".join(f"{one.label} {one.temperature_c:.0f} °C" for one in card.sensors)
            yield _("Card {card}: {sentence}").format(card=card.card, sentence=seen)
