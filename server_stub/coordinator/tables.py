"""What the operator's commands print for people: aligned columns, moments as dates.

Owns: the text of rows and facts. Must not: know what they mean beyond the unit in a name: `..._s`
are Unix seconds and are shown as a date in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

__all__ = ["facts", "rows"]


def facts(shown: Mapping[str, object]) -> str:
    """One line a fact, names in a column of their own."""
    named = {_title(name): _text(name, value) for name, value in shown.items()}
    width = max((len(name) for name in named), default=0)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in named.items())


def rows(shown: Sequence[Mapping[str, object]]) -> str:
    """A table with a line of titles; `none` where there is no row."""
    if not shown:
        return "none"
    cells = [[_title(name) for name in shown[0]]]
    cells += [[_text(name, value) for name, value in row.items()] for row in shown]
    is_number = [isinstance(value, int | float) for value in shown[0].values()]
    is_date = [name.endswith("_s") for name in shown[0]]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = []
    for line in cells:
        parts = [
            text.rjust(width) if number and not date else text.ljust(width)
            for text, width, number, date in zip(line, widths, is_number, is_date, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _title(name: str) -> str:
    return name.removesuffix("_s").replace("_", " ")


def _text(name: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_s") and isinstance(value, int | float):
        return datetime.fromtimestamp(value, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(value)
