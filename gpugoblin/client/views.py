"""What is shown of a job: in a terminal, in a notebook, as plain text.

Owns: the tables. Must not: fetch anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from gpugoblin.shown.plan import PlanView
from gpugoblin.shown.summary import tolerance_text
from gpugoblin.shown.tables import html_table, plain, rich_table
from gpugoblin.units import format_bytes, format_seconds
from gpugoblin.wire.messages.job import JobInfo

__all__ = ["PlanView", "StatusView", "html_table", "jobs_table", "plain"]


@dataclass(frozen=True, slots=True)
class StatusView:
    """How far a job is. Progress counts verified tasks."""

    info: JobInfo

    @property
    def verified(self) -> int:
        return self.info.verified

    @property
    def tasks(self) -> int:
        return self.info.tasks

    @property
    def fraction(self) -> float:
        """From 0 to 1; 1 exactly when the job is done."""
        if self.info.state == "done":
            return 1.0
        return min(self.info.verified / self.info.tasks, 0.999) if self.info.tasks else 0.0

    def line(self) -> str:
        """One line for a log."""
        info = self.info
        text = f"{info.name}: {info.state}, {info.verified} of {info.tasks} tasks verified"
        if info.state == "running" and (info.leased or info.checking):
            text += f" ({info.leased} computing, {info.checking} in checking)"
        return text + (f": {info.error_text}" if info.error_text else "")

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line."""
        info = self.info
        by = info.verified_by
        methods = {
            "product check": by.product,
            "recomputed": by.recompute,
            "equal hashes": by.equality,
            "agreement": by.agreement,
        }
        lost = info.lost.expired + info.lost.abandoned + info.lost.rejected + info.lost.late
        rows = [
            ("job", info.name),
            ("state", info.state + (f": {info.error_text}" if info.error_text else "")),
            ("verified", f"{info.verified} of {info.tasks} tasks ({100 * self.fraction:.1f} %)"),
            ("how", ", ".join(f"{n} {how}" for how, n in methods.items() if n) or "nothing yet"),
            ("done again", f"{lost} ({info.lost.rejected} refused by the check)"),
            (
                "moved",
                f"{format_bytes(info.bytes_sent)} out, {format_bytes(info.bytes_received)} in",
            ),
        ]
        if info.tolerances:
            rows.append(("tolerance", tolerance_text(info.tolerances)))
        if info.credits:
            rows.append(("credits", f"{info.credits:.6g}"))
        if info.started_s is not None and info.finished_s is not None:
            rows.append(("took", format_seconds(info.finished_s - info.started_s)))
        return rows

    def __rich__(self) -> Table:
        return rich_table("job", self.rows())

    def __str__(self) -> str:
        return self.line()

    def _repr_html_(self) -> str:
        percent = 100 * self.fraction
        bar = (
            '<div style="width:20em;background:#ddd"><div style="width:'
            f'{percent:.1f}%;background:#4a4;height:0.6em"></div></div>'
        )
        return bar + html_table("job", self.rows())


def jobs_table(infos: Sequence[JobInfo]) -> Table:
    """A line for each job."""
    table = Table(title="jobs", title_justify="left")
    for column in ("name", "state", "verified", "tasks", "executor"):
        table.add_column(column, justify="right" if column in ("verified", "tasks") else "left")
    for info in infos:
        table.add_row(
            info.name, info.state, str(info.verified), str(info.tasks), info.plan.executor
        )
    return table
