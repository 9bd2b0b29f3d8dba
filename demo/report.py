"""The table of the demonstration: what was computed, verified how, caught, redone, credited.

Owns: adding up the jobs' figures, and showing them as a table and as JSON. What was wrong and what
was lost is counted from the jobs' diaries, in tasks: a task whose lease was lost twice is one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import gpugoblin as gg
from demo.jobs import Figures, Neighbors
from gpugoblin.units import format_bytes, format_seconds

__all__ = ["Report", "Troubled", "make", "show", "troubled", "write"]

LOST = frozenset({"expired", "abandoned"})


@dataclass(frozen=True, slots=True)
class Troubled:
    """Numbers of the tasks of one job for which a result was wrong, or that a contributor lost.

    The lab computes the first kind itself, another contributor the second; a task may be both.
    """

    wrong: frozenset[int]
    lost: frozenset[int]


@dataclass(frozen=True, slots=True)
class Report:
    """Sums over all jobs, and the coordinator's credits by owner.

    Attributes:
        troubled: of each job.
        wrong, lost: tasks; `both`: those that are in both.
    """

    figures: tuple[Figures, ...]
    troubled: tuple[Troubled, ...]
    accuracy: float
    verified: int
    wrong: int
    lost: int
    both: int
    credits: tuple[tuple[str, float], ...]
    total_s: float


def make(
    figures: tuple[Figures, ...], near: Neighbors, credit: list[dict[str, Any]], total_s: float
) -> Report:
    struck = tuple(troubled(one.job) for one in figures)
    return Report(
        figures=figures,
        troubled=struck,
        accuracy=near.accuracy,
        verified=sum(one.job.info.verified for one in figures),
        wrong=sum(len(one.wrong) for one in struck),
        lost=sum(len(one.lost) for one in struck),
        both=sum(len(one.wrong & one.lost) for one in struck),
        credits=tuple((str(row["subject"]), float(row["units"])) for row in credit),
        total_s=total_s,
    )


def troubled(job: gg.Job) -> Troubled:
    """What a job's diary tells of wrong and lost results."""
    wrong: set[int] = set()
    lost: set[int] = set()
    after = 0
    while events := job.events(after):
        for event in events:
            if event.task_index is not None and event.kind == "rejected":
                wrong.add(event.task_index)
            elif event.task_index is not None and event.kind in LOST:
                lost.add(event.task_index)
        after = events[-1].number
    return Troubled(frozenset(wrong), frozenset(lost))


def show(report: Report, console: Console) -> None:
    title = "Computed on the network, verified by the lab"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for head in ("job", "tasks", "verified", "wrong", "lost", "bytes", "time", "NumPy"):
        left = head in ("job", "verified")
        table.add_column(head, justify="left" if left else "right", no_wrap=head != "job")
    for one, struck in zip(report.figures, report.troubled, strict=True):
        info, by = one.job.info, one.job.info.verified_by
        methods = [("by product", by.product), ("recomputed", by.recompute)]
        methods += [("equal hashes", by.equality), ("agreement", by.agreement)]
        table.add_row(
            one.what.replace(" of ", "\nof ", 1),
            str(info.tasks),
            "\n".join(f"{count} {name}" for name, count in methods if count),
            str(len(struck.wrong)),
            str(len(struck.lost)),
            format_bytes(info.bytes_sent + info.bytes_received),
            format_seconds(one.network_s),
            format_seconds(one.numpy_s),
        )
    console.print(table)
    console.print(
        f"Nearest neighbors with the same label: {report.accuracy:.2%} (leave one out). "
        "The eigenvectors of the Gram matrix were computed by NumPy in this process."
    )
    for name, units in report.credits:
        console.print(f"credits of {name}: {units:.4g} units of verified work")
    both = f" ({report.both} of them were both)" if report.both else ""
    console.print(
        f"{report.verified} tasks verified. {report.wrong} had a wrong result, which was caught; "
        f"the lab computed them itself. {report.lost} were lost with a contributor that was killed "
        f"or left; others did them again{both}. {format_seconds(report.total_s)} in all."
    )
    console.print(
        "One machine plays all parts here, so the network cannot be faster than NumPy alone (which "
        "here leaves its result in memory): what you see is what verification and transport cost."
    )


def write(report: Report, path: Path) -> None:
    rows = [
        {
            "what": one.what,
            "tasks": one.job.info.tasks,
            "verified": one.job.info.verified,
            "used": one.job.info.used,
            "product_checked": one.job.info.verified_by.product,
            "recomputed": one.job.info.verified_by.recompute,
            "agreed": one.job.info.verified_by.agreement,
            "equal": one.job.info.verified_by.equality,
            "wrong": len(struck.wrong),
            "lost": len(struck.lost),
            "wrong_and_lost": len(struck.wrong & struck.lost),
            "rejected": one.job.info.lost.rejected,
            "expired": one.job.info.lost.expired,
            "abandoned": one.job.info.lost.abandoned,
            "bytes_sent": one.job.info.bytes_sent,
            "bytes_received": one.job.info.bytes_received,
            "network_s": round(one.network_s, 3),
            "numpy_s": round(one.numpy_s, 3),
            "error": one.error,
        }
        for one, struck in zip(report.figures, report.troubled, strict=True)
    ]
    document = {
        "jobs": rows,
        "accuracy": report.accuracy,
        "credits": dict(report.credits),
        "total_s": round(report.total_s, 2),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
