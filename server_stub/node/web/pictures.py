"""A job's plan in order, as a strip of cells that fill as tasks are verified.

Owns: its drawing. Colours come from the style sheet. Must not: compute a figure.
"""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from gpugoblin.wire.messages.summary import JobSummary, Stretch

__all__ = ["strip"]

COLUMNS: Final = 30
CELL: Final = 16
GAP: Final = 2


def strip(summary: JobSummary) -> Markup:
    """The picture; each cell tells its tasks to pointer and screen reader."""
    stretches = summary.stretches
    columns = min(COLUMNS, max(1, len(stretches)))
    rows = -(-len(stretches) // columns)
    info = summary.info
    parts = [
        f'<svg class="strip" viewBox="0 0 {COLUMNS * CELL} {max(1, rows) * CELL}" role="img"'
        f' aria-label="{info.verified} of {info.tasks} tasks verified">'
    ]
    first = 0
    for number, one in enumerate(stretches):
        x, y = number % columns * CELL, number // columns * CELL
        side = CELL - GAP
        last = first + one.tasks - 1
        name = f"task {first}" if one.tasks == 1 else f"tasks {first}-{last}"
        parts.append(
            f'<g class="{_kind(one)}"><title>{name}: {one.verified} verified</title>'
            f'<rect class="cell" x="{x}" y="{y}" width="{side}" height="{side}" rx="3"/>'
        )
        if one.verified > 0:
            height = side * one.verified / one.tasks
            parts.append(
                f'<rect class="full" x="{x}" y="{y + side - height:.1f}" width="{side}"'
                f' height="{height:.1f}" rx="3"/>'
            )
        parts.append("</g>")
        first = last + 1
    parts.append("</svg>")
    return Markup("".join(parts))  # noqa: S704 - numbers and words of ours


def _kind(one: Stretch) -> str:
    if one.working:
        return "working"
    return "ended" if one.ended else "still"
