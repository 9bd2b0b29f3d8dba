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
from app.control.plain import cap_lines, code_line, coordinator_line, lost_line, totals_line
from app.control.retold import finding_lines
from app.control.texts import _
from gpugoblin.units import format_flops, format_seconds

__all__ = ["STAGES", "print_findings", "print_status"]

STAGES: Final[Mapping[str, str]] = {
    "fetching": "{n} fetching",
    "ready": "{n} ready",
    "submitted": "{n} submitted",
    "committed": "{n} committed",
    "uploading": "{n} uploading",
}


def print_status(items: Mapping[str, Item], now_s: float, console: Console | None = None) -> None:
    """Prints everything there is to see of an agent. `now_s`: Unix seconds."""
    out = console or Console(highlight=False)
    for item in items.values():
        if isinstance(item, AgentItem):
            _print_agent(out, item, now_s)
    names = (_("card"), _("does"), _("sandbox"), _("rate"), _("done"), _("labs"))
    table = Table(*names, box=None, pad_edge=False)
    for item in items.values():
        if isinstance(item, CardItem):
            labs = [
                _lab(each)
                for each in items.values()
                if isinstance(each, GrantItem) and each.card == item.card
            ]
            rate = f"{format_flops(item.flops_per_s)}/s" if item.flops_per_s else _("unknown")
            table.add_row(
                f"{item.card} ({item.kind})",
                escape(words.card_sentence(item, now_s)),
                item.sandbox_level or _("none yet"),
                rate,
                str(item.done),
                "\n".join(labs) or _("none"),
            )
    out.print(table)
    for line in cap_lines(items):
        out.print(line)
    _print_work(out, items)


def _lab(grant: GrantItem) -> str:
    until = words.clock_time(grant.until_s)
    if not grant.name:
        return _("one until {moment}").format(moment=until)
    return _("{lab}, until {when}").format(lab=escape(grant.name), when=until)


def _print_agent(out: Console, item: AgentItem, now_s: float) -> None:
    out.print(
        _("gpugoblin {build}, process {pid}, profile {profile}").format(
            build=escape(item.build), pid=item.pid, profile=escape(item.profile)
        ),
        style="bold",
    )
    contact = ""
    if item.next_contact_s is not None and item.state in ("working", "coordinator_away"):
        wait_s = max(0.0, item.next_contact_s - now_s)
        contact = _(", next contact in {time}").format(time=format_seconds(round(wait_s)))
    color = "green" if item.state == "working" else "yellow"
    out.print(f"[{color}]{escape(coordinator_line(item))}[/{color}]{contact}")
    out.print(_("This device's key: {fingerprint}").format(fingerprint=escape(item.fingerprint)))
    if item.user_code:
        out.print(escape(code_line(item)), style="bold")


def _print_work(out: Console, items: Mapping[str, Item]) -> None:
    leases = [item for item in items.values() if isinstance(item, LeaseItem)]
    counts = {stage: sum(item.stage == stage for item in leases) for stage in STAGES}
    shown = ", ".join(_(STAGES[stage]).format(n=n) for stage, n in counts.items() if n)
    out.print(_("Tasks now: {tasks}").format(tasks=shown or _("none")))
    for item in items.values():
        if isinstance(item, TotalsItem):
            out.print(totals_line(item))
            if lost_line(item):
                out.print(lost_line(item))


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
