"""Status and doctor on one screen, for a terminal. Owns their look; asks nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from app.control import words
from app.control.messages import (
    AgentItem,
    CardItem,
    Finding,
    GrantItem,
    Item,
    LeaseItem,
    TotalsItem,
)
from app.control.retold import finding_lines
from app.control.texts import _
from gpugoblin.units import format_bytes, format_flops, format_seconds

__all__ = ["print_findings", "print_status"]

_STATES: Final = {
    "starting": "[yellow]starting[/yellow]",
    "not_enrolled": "[yellow]not enrolled[/yellow]",
    "working": "[green]connected[/green]",
    "coordinator_away": "[yellow]the coordinator does not answer[/yellow]",
    "ending": "[yellow]ending[/yellow]",
}
_STAGES: Final = ("fetching", "ready", "submitted", "committed", "uploading")


def print_status(items: Mapping[str, Item], now_s: float, console: Console | None = None) -> None:
    """Prints everything there is to see of an agent. `now_s`: Unix seconds."""
    out = console or Console(highlight=False)
    for item in items.values():
        if isinstance(item, AgentItem):
            _print_agent(out, item, now_s)
    table = Table("card", "does", "sandbox", "rate", "done", "labs", box=None, pad_edge=False)
    for item in items.values():
        if isinstance(item, CardItem):
            labs = [
                f"one until {words.clock_time(each.until_s)}"
                for each in items.values()
                if isinstance(each, GrantItem) and each.card == item.card
            ]
            rate = f"{format_flops(item.flops_per_s)}/s" if item.flops_per_s else "unknown"
            table.add_row(
                f"{item.card} ({item.kind})",
                escape(words.card_sentence(item, now_s)),
                item.sandbox_level or "none yet",
                rate,
                str(item.done),
                "\n".join(labs) or "none",
            )
    out.print(table)
    _print_work(out, items)


def _print_agent(out: Console, item: AgentItem, now_s: float) -> None:
    out.print(f"[bold]gpugoblin[/bold] {escape(item.build)}, process {item.pid}")
    contact = ""
    if item.next_contact_s is not None and item.state in ("working", "coordinator_away"):
        wait_s = max(0.0, item.next_contact_s - now_s)
        contact = f", next contact in {format_seconds(round(wait_s))}"
    out.print(f"Coordinator {escape(item.coordinator)}: {_STATES[item.state]}{contact}")
    out.print(f"This device's key: {escape(item.fingerprint)}")
    if item.user_code:
        out.print(f"Approve the code [bold]{escape(item.user_code)}[/bold] to enroll this device.")


def _print_work(out: Console, items: Mapping[str, Item]) -> None:
    leases = [item for item in items.values() if isinstance(item, LeaseItem)]
    counts = {stage: sum(item.stage == stage for item in leases) for stage in _STAGES}
    shown = ", ".join(f"{count} {stage}" for stage, count in counts.items() if count)
    out.print(f"Tasks now: {shown or 'none'}")
    for item in items.values():
        if isinstance(item, TotalsItem):
            out.print(
                f"Since the start: {item.results_sent} results sent, "
                f"{item.leases_given_back} tasks given back, "
                f"{format_bytes(item.bytes_received)} received, "
                f"{format_bytes(item.bytes_sent)} sent, "
                f"{format_bytes(item.cache_bytes)} cached (encrypted)"
            )


def print_findings(findings: Sequence[Finding], console: Console | None = None) -> None:
    """Prints what the doctor found, one line each, with the fix below what is not well."""
    out = console or Console(highlight=False)
    rows: list[tuple[str, str]] = []
    for finding in findings:
        well = f"[green]{_('well')}[/green]    "
        mark = well if finding.is_well else f"[red]{_('not well')}[/red]"
        what, fix = finding_lines(finding)
        rows.append((mark, escape(what)))
        if fix:
            rows.append((" " * 8, escape(fix)))
    if not out.is_terminal:  # in a pipe a line stays one line
        for mark, text in rows:
            out.print(f"{mark}  {text}", soft_wrap=True)
        return
    table = Table.grid(padding=(0, 2))
    for mark, text in rows:
        table.add_row(mark, text)
    out.print(table)
