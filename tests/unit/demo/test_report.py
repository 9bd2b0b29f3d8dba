"""The demonstration's table: what it counts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from demo import report
from gpugoblin.wire.messages.job import JobEvent, LostWork, VerifiedBy

__all__: list[str] = []


def job(*told: tuple[str, int | None], **info: Any) -> Any:
    """A finished job of six tasks whose diary tells this, two events a page."""
    events = [JobEvent(at + 1, 0.0, kind, task) for at, (kind, task) in enumerate(told)]  # type: ignore[arg-type]
    fields = {
        "tasks": 6, "verified": 6, "used": 6, "bytes_sent": 1000, "bytes_received": 2000,
        "verified_by": VerifiedBy(product=4, recompute=2), "lost": LostWork(), **info,
    }  # fmt: skip
    return SimpleNamespace(
        info=SimpleNamespace(**fields),
        events=lambda after: tuple(event for event in events if event.number > after)[:2],
    )


def made(*jobs: Any) -> report.Report:
    figures: Any = tuple(SimpleNamespace(what="Product of x", job=one, network_s=1.0, numpy_s=0.5,
                                         error=0.0) for one in jobs)  # fmt: skip
    near: Any = SimpleNamespace(accuracy=0.5)
    return report.make(figures, near, [{"subject": "owner-a", "units": 2.0}], 9.0)


STORY = (
    ("started", None), ("leased", 0), ("rejected", 0), ("abandoned", 1), ("expired", 1),
    ("abandoned", 2), ("rejected", 3), ("expired", 3), ("verified", 3), ("done", None),
)  # fmt: skip


def test_wrong_and_lost_are_counted_as_tasks() -> None:
    """Task 1 was lost twice, task 3 was wrong once and lost once."""
    found = report.troubled(job(*STORY))
    assert found == report.Troubled(frozenset({0, 3}), frozenset({1, 2, 3}))
    total = made(job(*STORY), job(("rejected", 0)), job())
    assert (total.verified, total.wrong, total.lost, total.both) == (18, 3, 3, 1)


def test_the_table_fits_a_terminal_and_says_who_did_what() -> None:
    stream = io.StringIO()
    report.show(made(job(*STORY), job()), Console(file=stream, width=80))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "wrong" in lines[2]
    assert "lost" in lines[2]
    (row,) = [line.split() for line in lines if "4 by product" in line and " 2 " in line][:1]
    assert row[row.index("product") + 1 : row.index("product") + 3] == ["2", "3"]
    text = " ".join(" ".join(lines).split())
    assert "12 tasks verified. 2 had a wrong result" in text
    assert "3 were lost" in text
    assert "(1 of them were both)" in text


def test_nothing_is_said_of_both_where_none_is() -> None:
    stream = io.StringIO()
    report.show(made(job(("rejected", 0), ("expired", 1))), Console(file=stream, width=80))
    assert "of them were both" not in " ".join(stream.getvalue().split())


def test_the_file_has_tasks_and_leases(tmp_path: Path) -> None:
    lost = LostWork(expired=2, abandoned=2, rejected=2)
    report.write(made(job(*STORY, lost=lost)), tmp_path / "demo.json")
    (row,) = json.loads((tmp_path / "demo.json").read_text())["jobs"]
    assert (row["wrong"], row["lost"], row["wrong_and_lost"]) == (2, 3, 1)
    assert (row["rejected"], row["expired"], row["abandoned"]) == (2, 2, 2)
