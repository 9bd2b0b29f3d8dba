"""What is shown of a job's summary: its figures in words.

Owns: the words. Must not: compute a figure of a job; all are the node's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from gpugoblin.shown.tables import html_table, plain, rich_table
from gpugoblin.units import format_bytes, format_ratio, format_seconds
from gpugoblin.wire.messages.job import GraphTolerance
from gpugoblin.wire.messages.summary import JobSummary

__all__ = ["SummaryView", "tolerance_text"]

_METHODS = (
    ("product", "product check"),
    ("recompute", "recomputed"),
    ("equality", "equal hashes"),
    ("agreement", "agreement"),
)


def tolerance_text(tolerances: Sequence[GraphTolerance]) -> str:
    """How far honest results of the job's graphs lie apart, as it was measured."""
    middle = max(one.middle for one in tolerances)
    largest = max(one.largest for one in tolerances)
    graphs = f"{len(tolerances)} graph{'' if len(tolerances) == 1 else 's'}"
    text = f"{middle:.1e} of the root mean square, at most {largest:.1e} (measured, {graphs})"
    signed = max(one.signed for one in tolerances)
    return f"{text}; no device's mean error above {signed:.1%} of it" if signed else text


@dataclass(frozen=True, slots=True)
class SummaryView:
    """How a job goes. Prints as a table; `summary` has the figures.

    Attributes:
        summary: the node's message.
    """

    summary: JobSummary

    @property
    def fraction(self) -> float:
        """From 0 to 1; 1 exactly when the job is done."""
        info = self.summary.info
        if info.state == "done":
            return 1.0
        return min(info.verified / info.tasks, 0.999) if info.tasks else 0.0

    @property
    def lost(self) -> int:
        """Leases that came to nothing; each such task was done again."""
        lost = self.summary.info.lost
        return lost.expired + lost.abandoned + lost.rejected + lost.late

    @property
    def tolerance(self) -> str:
        """How far honest results lie apart (`tolerance_text`); empty where it was not measured."""
        known = self.summary.info.tolerances
        return tolerance_text(known) if known else ""

    def methods(self) -> list[tuple[str, int]]:
        """How many tasks each method has verified, without those that verified none."""
        by = self.summary.info.verified_by
        return [(words, getattr(by, name)) for name, words in _METHODS if getattr(by, name)]

    def states(self) -> list[tuple[str, int]]:
        """Tasks by state, in the order in which a task passes them; without empty ones."""
        tasks = self.summary.tasks
        return [(name, getattr(tasks, name)) for name in tasks.__struct_fields__
                if getattr(tasks, name)]  # fmt: skip

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line."""
        found, info = self.summary, self.summary.info
        rows = [
            ("job", info.name),
            ("state", info.state + (f": {info.error_text}" if info.error_text else "")),
            ("verified", f"{info.verified} of {info.tasks} tasks ({100 * self.fraction:.1f} %)"),
            ("tasks", _counts(self.states())),
            ("how", _counts(self.methods()) or "nothing yet"),
            ("done again", f"{self.lost} ({info.lost.rejected} refused by the check)"),
            ("by", self._by()),
            ("moved", f"{format_bytes(info.bytes_sent)} out, "
             f"{format_bytes(info.bytes_received)} in"),
            ("time", self.time()),
            ("gain", f"{format_ratio(found.gain)} over the node alone "
             f"(estimate {format_ratio(info.plan.gain)})"),
        ]  # fmt: skip
        if self.tolerance:
            rows.append(("tolerance", self.tolerance))
        if info.credits:
            rows.append(("credits", f"{info.credits:.6g}"))
        return rows

    def time(self) -> str:
        """What it took, may still take, and was estimated to take."""
        found = self.summary
        text = format_seconds(found.elapsed_s)
        if found.remaining_s is not None:
            text += f", about {format_seconds(found.remaining_s)} to go"
        return f"{text} (estimate {format_seconds(found.info.plan.estimate_s)})"

    def _by(self) -> str:
        found = self.summary
        if not found.contributors:
            return "nobody yet"
        first = ", ".join(f"{one.pseudonym} {one.accepted}" for one in found.contributors[:3])
        return first + (f" and {found.owners - 3} more" if found.owners > 3 else "")

    def __rich__(self) -> Table:
        return rich_table("job", self.rows())

    def __str__(self) -> str:
        return plain(self.__rich__())

    def _repr_html_(self) -> str:
        return html_table("job", self.rows())


def _counts(counts: list[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {words}" for words, count in counts)
