"""Status in plain lines, for pipes and logs, and the texts that a terminal shows too.

Owns: these texts. Must not: ask anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from app.control import words
from app.control.messages import AgentItem, CardItem, Item, ProbeItem, TotalsItem
from app.control.texts import _
from gpugoblin.units import format_bytes, format_seconds

__all__ = [
    "STATES",
    "cap_lines",
    "code_line",
    "coordinator_line",
    "lost_line",
    "status_lines",
    "totals_line",
]

STATES: Final[Mapping[str, str]] = {
    "starting": "starting",
    "not_enrolled": "not enrolled",
    "working": "connected",
    "coordinator_away": "the coordinator does not answer",
    "ending": "ending",
}


def coordinator_line(agent: AgentItem) -> str:
    """Which coordinator, and how it stands with it."""
    if not agent.coordinator:
        return _("No coordinator is named yet.")
    return _("Coordinator {coordinator}: {state}").format(
        coordinator=agent.coordinator, state=_(STATES[agent.state])
    )


def code_line(agent: AgentItem) -> str:
    """What to do with the code of a machine that is not enrolled yet."""
    return _("Approve the code {code} to enroll this device.").format(code=agent.user_code)


def cap_lines(items: Mapping[str, Item]) -> Iterator[str]:
    """What each card may draw by its owner's settings, where these say so."""
    for item in items.values():
        if isinstance(item, CardItem) and item.cap_w is not None:
            yield _("Card {card} draws at most {cap} W by your settings.").format(
                card=item.card, cap=item.cap_w
            )


def totals_line(totals: TotalsItem) -> str:
    """What was done since the start."""
    return _(
        "Since the start: {results} results sent, {back} tasks given back, {received} received,"
        " {sent} sent, {cached} cached (encrypted); today {energy:.3f} kWh"
    ).format(
        results=totals.results_sent,
        back=totals.leases_given_back,
        received=format_bytes(totals.bytes_received),
        sent=format_bytes(totals.bytes_sent),
        cached=format_bytes(totals.cache_bytes),
        energy=totals.energy_wh / 1000,
    )


def lost_line(totals: TotalsItem) -> str:
    """What pauses have cost; empty before anything was computed."""
    whole_s = totals.computed_s + totals.lost_s
    if not whole_s:
        return ""
    return _("Computed {time}; pauses threw {percent:.1f} % of it away").format(
        time=format_seconds(round(whole_s)), percent=100 * totals.lost_s / whole_s
    )


def status_lines(items: Mapping[str, Item], now_s: float) -> Iterator[str]:
    """Everything there is to see of an agent, a line each. `now_s`: Unix seconds."""
    for item in items.values():
        if isinstance(item, AgentItem):
            yield _("gpugoblin {build}, process {pid}, profile {profile}").format(
                build=item.build, pid=item.pid, profile=item.profile
            )
            yield coordinator_line(item)
            if item.user_code:
                yield code_line(item)
            if item.settings_fault:
                yield words.line("settings_kept", {"why": item.settings_fault})
    for item in items.values():
        if isinstance(item, CardItem):
            yield _("Card {card} ({kind}): {sentence}").format(
                card=item.card, kind=item.kind, sentence=words.card_sentence(item, now_s)
            )
    yield from cap_lines(items)
    for item in items.values():
        if isinstance(item, ProbeItem) and item.health == "unknown":
            yield _("Not known: {name} ({source}): {line}").format(
                name=item.name, source=item.source, line=item.line
            )
    for item in items.values():
        if isinstance(item, TotalsItem):
            yield totals_line(item)
            if lost_line(item):
                yield lost_line(item)
