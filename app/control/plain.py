"""Status in plain lines, for pipes and logs. Owns their look; asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from app.control import words
from app.control.messages import AgentItem, CardItem, Item, ProbeItem, TotalsItem
from gpugoblin.units import format_bytes

__all__ = ["status_lines"]

_STATES: Final = {
    "starting": "starting",
    "not_enrolled": "not enrolled",
    "working": "connected",
    "coordinator_away": "the coordinator does not answer",
    "ending": "ending",
}


def status_lines(items: Mapping[str, Item], now_s: float) -> Iterator[str]:
    """Everything there is to see of an agent, a line each. `now_s`: Unix seconds."""
    for item in items.values():
        if isinstance(item, AgentItem):
            yield f"gpugoblin {item.build}, process {item.pid}, profile {item.profile}"
            yield f"coordinator {item.coordinator}: {_STATES[item.state]}"
            if item.user_code:
                yield f"approve the code {item.user_code} to enroll this device"
            if item.settings_fault:
                yield f"settings file not used: {item.settings_fault}"
    for item in items.values():
        if isinstance(item, CardItem):
            yield f"card {item.card} ({item.kind}): {words.card_sentence(item, now_s)}"
    for item in items.values():
        if isinstance(item, ProbeItem) and item.health == "unknown":
            yield f"not known: {item.name} ({item.source}): {item.line}"
    for item in items.values():
        if isinstance(item, TotalsItem):
            yield (
                f"since the start: {item.results_sent} results sent, "
                f"{item.leases_given_back} tasks given back, "
                f"{format_bytes(item.bytes_received)} received, "
                f"{format_bytes(item.bytes_sent)} sent; today {item.energy_wh / 1000:.3f} kWh"
            )
