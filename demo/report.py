"""The table of the demonstration: what was computed, verified how, caught, redone, credited.

Owns: adding up the jobs' figures, and showing them as a table and as JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from demo.jobs import Figures, Neighbors
from gpugoblin.units import format_bytes, format_seconds

__all__ = ["Report", "make", "show", "write"]


@dataclass(frozen=True, slots=True)
class Report:
    """Sums over all jobs, and the coordinator's credits by owner."""

    figures: tuple[Figures, ...]
    accuracy: float
    verified: int
    wrong: int
    lost: int
    credits: tuple[tuple[str, float], ...]
    total_s: float


def make(
    figures: tuple[Figures, ...], near: Neighbors, credit: list[dict[str, Any]], total_s: float
) -> Report:
    infos = [one.job.info for one in figures]
    return Report(
        figures=figures,
        accuracy=near.accuracy,
        verified=sum(info.verified for info in infos),
        wrong=sum(info.lost.rejected for info in infos),
        lost=sum(info.lost.expired + info.lost.abandoned for info in infos),
        credits=tuple((str(row["subject"]), float(row["units"])) for row in credit),
        total_s=total_s,
    )


def show(report: Report, console: Console) -> None:
    title = "Computed on the network, verified by the lab"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for head in ("job", "tasks", "verified", "wrong", "redone", "bytes", "time", "NumPy"):
        left = head in ("job", "verified")
        table.add_column(head, justify="left" if left else "right", no_wrap=head != "job")
    for one in report.figures:
        info, by = one.job.info, one.job.info.verified_by
        methods = [("by product", by.product), ("recomputed", by.recompute)]
        methods += [("equal hashes", by.equality), ("agreement", by.agreement)]
        table.add_row(
            one.what.replace(" of ", "\nof ", 1),
            str(info.tasks),
            "\n".join(f"{count} {name}" for name, count in methods if count),
            str(info.lost.rejected),
            str(info.lost.expired + info.lost.abandoned),
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
    console.print(
        f"{report.verified} tasks verified, {report.wrong} wrong results caught, {report.lost} "
        f"lost tasks done again; {format_seconds(report.total_s)} in all. One machine plays all "
        "parts here, so the network cannot be faster than NumPy alone (which here leaves its "
        "result in memory): what you see is what verification and transport cost."
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
            "wrong": one.job.info.lost.rejected,
            "expired": one.job.info.lost.expired,
            "abandoned": one.job.info.lost.abandoned,
            "bytes_sent": one.job.info.bytes_sent,
            "bytes_received": one.job.info.bytes_received,
            "network_s": round(one.network_s, 3),
            "numpy_s": round(one.numpy_s, 3),
            "error": one.error,
        }
        for one in report.figures
    ]
    document = {
        "jobs": rows,
        "accuracy": report.accuracy,
        "credits": dict(report.credits),
        "total_s": round(report.total_s, 2),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
