"""A plan as a picture: what it takes beside what checking it takes, and beside the lab node alone.

Owns: the drawing. Must not: estimate; every figure is the plan's. Parts have classes, so that a
page can give them its own colours; alone, the picture has those that are written here.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

__all__ = ["Bars", "bars_svg"]

_WIDTH: Final = 640
_LEFT: Final = 170
_ROOM: Final = 330
_ROW: Final = 18
_FONT: Final = 'class="ink" font-family="sans-serif" font-size="12"'
_QUIET: Final = 'class="quiet" font-family="sans-serif" font-size="12" fill="#666"'
_COLORS: Final = ("#3b6ea5", "#c1803a")

Bars = tuple[str, Sequence[tuple[str, float, str]]]
"""A title, and for each bar its label, its size, and how that is written. Bars of one title are
drawn to one scale."""


def bars_svg(title: str, groups: Sequence[Bars]) -> str:
    """The text of an SVG file. Sizes that are no number or not positive are drawn as nothing."""
    parts: list[str] = []
    y = 24
    for caption, bars in groups:
        parts.append(f'<text x="8" y="{y + 12}" {_QUIET}>{html.escape(caption)}</text>')
        y += _ROW
        largest = max((size for _, size, _ in bars if _drawable(size)), default=0.0)
        for number, (label, size, text) in enumerate(bars):
            width = _ROOM * size / largest if largest > 0 and _drawable(size) else 0.0
            parts.append(
                f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end" {_FONT}>'
                f"{html.escape(label)}</text>"
                f'<rect x="{_LEFT}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 5}" '
                f'class="bar{number % len(_COLORS)}" fill="{_COLORS[number % len(_COLORS)]}"/>'
                f'<text x="{_LEFT + width + 6:.1f}" y="{y + 12}" {_FONT}>{html.escape(text)}</text>'
            )
            y += _ROW
        y += 8
    height = y + 4
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img"><title>{html.escape(title)}</title>'
        f'<rect width="{_WIDTH}" height="{height}" class="paper" fill="white"/>'
        f'<text x="8" y="16" {_FONT} font-weight="bold">{html.escape(title)}</text>'
    )
    return head + "".join(parts) + "</svg>"


def _drawable(size: float) -> bool:
    return 0 < size < float("inf")
