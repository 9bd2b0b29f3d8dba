"""What is shown of a plan and of a job: in a terminal, in a notebook, as plain text.

Owns: the tables. Must not: fetch anything.
"""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from gpugoblin.client.planpicture import bars_svg
from gpugoblin.units import format_bytes, format_flops, format_seconds
from gpugoblin.wire.messages.job import JobInfo, PlanReply

__all__ = ["PlanView", "StatusView", "html_table", "jobs_table", "plain"]

PLAIN_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan and its estimate. Prints as a table; the figures are attributes.

    Attributes:
        tasks, tile: how the work is cut.
        flops, verify_flops: what it takes, and what the check takes.
        bytes_in, bytes_out: what travels to those who compute and back.
        task_memory_bytes, node_memory_bytes: at most, for one task and for the lab node.
        estimate_s, alone_s, gain: this plan, the lab node alone, and their ratio.
    """

    kind: str
    executor: str
    tasks: int
    tile: tuple[int, ...]
    flops: int
    verify_flops: int
    bytes_in: int
    bytes_out: int
    task_memory_bytes: int
    node_memory_bytes: int
    estimate_s: float
    alone_s: float
    gain: float

    @classmethod
    def of(cls, reply: PlanReply) -> PlanView:
        return cls(
            kind=reply.kind,
            executor=reply.executor,
            tasks=reply.tasks,
            tile=reply.tile,
            flops=reply.flops,
            verify_flops=reply.verify_flops,
            bytes_in=reply.bytes_in,
            bytes_out=reply.bytes_out,
            task_memory_bytes=reply.memory_bound_bytes,
            node_memory_bytes=reply.node_memory_bytes,
            estimate_s=reply.estimate_s,
            alone_s=reply.alone_s,
            gain=reply.gain,
        )

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line."""
        tile = " x ".join(map(str, self.tile)) or "whole"
        share = self.verify_flops / self.flops if self.flops else 0.0
        return [
            ("tasks", f"{self.tasks} ({self.kind}, {tile})"),
            ("computed", f"{'on this lab node' if self.executor == 'local' else 'on the grid'}"),
            ("work", f"{format_flops(self.flops)}, check {100 * share:.2g} % of it"),
            ("to the tasks", format_bytes(self.bytes_in)),
            ("results", format_bytes(self.bytes_out)),
            ("memory of a task", f"at most {format_bytes(self.task_memory_bytes)}"),
            ("memory of the node", f"at most {format_bytes(self.node_memory_bytes)}"),
            ("time", f"about {format_seconds(self.estimate_s)}"),
            ("node alone", f"about {format_seconds(self.alone_s)} (gain {self.gain:.3g})"),
        ]

    def __rich__(self) -> Table:
        return _rich_table("plan", self.rows())

    def __str__(self) -> str:
        return plain(self.__rich__())

    def svg(self) -> str:
        """The text of an SVG file: work and its check, what travels, memory, and time."""
        task, node = self.task_memory_bytes, self.node_memory_bytes
        return bars_svg(
            f"plan: {self.tasks} tasks ({self.kind})",
            [
                (
                    "work",
                    [
                        ("tasks", float(self.flops), format_flops(self.flops)),
                        ("checks", float(self.verify_flops), format_flops(self.verify_flops)),
                    ],
                ),
                (
                    "bytes",
                    [
                        ("to the tasks", float(self.bytes_in), format_bytes(self.bytes_in)),
                        ("results", float(self.bytes_out), format_bytes(self.bytes_out)),
                    ],
                ),
                (
                    "memory at most",
                    [
                        ("a task", float(task), format_bytes(task)),
                        ("the node", float(node), format_bytes(node)),
                    ],
                ),
                (
                    f"time (gain {self.gain:.3g})",
                    [
                        ("this plan", self.estimate_s, format_seconds(self.estimate_s)),
                        ("node alone", self.alone_s, format_seconds(self.alone_s)),
                    ],
                ),
            ],
        )

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return html_table("plan", self.rows())


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
        if info.credits:
            rows.append(("credits", f"{info.credits:.6g}"))
        if info.started_s is not None and info.finished_s is not None:
            rows.append(("took", format_seconds(info.finished_s - info.started_s)))
        return rows

    def __rich__(self) -> Table:
        return _rich_table("job", self.rows())

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


def plain(renderable: Table) -> str:
    """A table as text without escape codes."""
    target = io.StringIO()
    Console(file=target, width=PLAIN_COLUMNS, color_system=None, force_terminal=False).print(
        renderable
    )
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines())


def html_table(caption: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table for a notebook; every text is escaped."""
    body = "".join(
        f'<tr><th style="text-align:left">{html.escape(label)}</th>'
        f'<td style="text-align:left">{html.escape(text)}</td></tr>'
        for label, text in rows
    )
    return f"<table><caption>{html.escape(caption)}</caption>{body}</table>"


def _rich_table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table
