"""Status and doctor on a terminal: everything is there, and markup in data stays data."""

from __future__ import annotations

import io

from rich.console import Console

from app.control.messages import (
    AgentItem,
    CardItem,
    Finding,
    GrantItem,
    Item,
    LeaseItem,
    ReasonItem,
    TotalsItem,
)
from app.control.screen import print_findings, print_status


def printed(*items: Item) -> str:
    out = io.StringIO()
    print_status({item.key: item for item in items}, 940.0, Console(file=out, width=200))
    return out.getvalue()


def test_everything_is_on_one_screen() -> None:
    text = printed(
        AgentItem("agent", "agent-1", 42, 0.0, "https://c:1", "working", "", "0123-4567", 963.4),
        CardItem(
            "card-0", 0, "cpu", "RUN", (ReasonItem("lending"),), None, False, "ready",
            "computing", "full", "lab_a", 1, 17, 0, 4.5e10,
        ),
        GrantItem("grant_a", "lab_a", 0, 1000.0),
        LeaseItem("lease_a", 0, "submitted"),
        LeaseItem("lease_b", 0, "fetching"),
        TotalsItem("totals", 17, 2, 1024, 2048, 4096),
    )  # fmt: skip
    for piece in (
        "process 42", "connected, next contact in 23 s", "0123-4567",
        "computing, because nothing forbids it", "full",
        "45 Gflop/s", "17", "1 fetching, 1 submitted", "17 results sent", "2 tasks given back",
    ):  # fmt: skip
        assert piece in text
    assert len(text.splitlines()) < 12


def test_an_agent_that_waits_for_its_code_shows_it() -> None:
    text = printed(
        AgentItem("agent", "a", 1, 0.0, "https://c", "not_enrolled", "ABCD-2345", "0123")
    )
    assert "not enrolled" in text
    assert "ABCD-2345" in text


def test_findings_with_their_fix_and_without_markup() -> None:
    out = io.StringIO()
    findings = [
        Finding("disk", True, "Enough [red]room[/red]."),
        Finding("sandbox", False, "No bwrap.", "Install bubblewrap."),
    ]
    print_findings(findings, Console(file=out, width=200))
    assert "[red]room[/red]" in out.getvalue()
    assert "not well  Walls: No bwrap.\n          Install bubblewrap." in out.getvalue()


def test_on_a_narrow_terminal_a_finding_goes_on_below_itself_and_in_a_pipe_on_its_line() -> None:
    findings = [Finding("probe_idle", True, "one two three four five six seven eight nine")]
    screen, pipe = io.StringIO(), io.StringIO()
    print_findings(findings, Console(file=screen, width=30, force_terminal=True, color_system=None))
    first, second, *_ = screen.getvalue().splitlines()
    assert first.startswith("well      Presence: one two")
    assert second.startswith(" " * 10)
    assert second.strip() in findings[0].what
    print_findings(findings, Console(file=pipe, width=30))
    assert pipe.getvalue() == f"well      Presence: {findings[0].what}\n"
