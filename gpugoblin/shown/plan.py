"""What is shown of a plan: its figures as a table and as a picture.

Owns: those. Must not: estimate; every figure is the node's.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from gpugoblin.shown.planpicture import bars_svg
from gpugoblin.shown.tables import html_table, plain, rich_table
from gpugoblin.units import format_bytes, format_flops, format_seconds
from gpugoblin.wire.messages.job import PlanReply

__all__ = ["PlanView"]


_PLACES = {
    "local": "on this lab node",
    "grid": "on the grid",
    "ray": "on the lab's Ray cluster",
}


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
            ("computed", _PLACES.get(self.executor, self.executor)),
            ("work", f"{format_flops(self.flops)}, check {100 * share:.2g} % of it"),
            ("to the tasks", format_bytes(self.bytes_in)),
            ("results", format_bytes(self.bytes_out)),
            ("memory of a task", f"at most {format_bytes(self.task_memory_bytes)}"),
            ("memory of the node", f"at most {format_bytes(self.node_memory_bytes)}"),
            ("time", f"about {format_seconds(self.estimate_s)}"),
            ("node alone", f"about {format_seconds(self.alone_s)} (gain {self.gain:.3g})"),
        ]

    def __rich__(self) -> Table:
        return rich_table("plan", self.rows())

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
