"""Pictures that are drawn here, as SVG elements of a page.

Owns: their geometry. Colours come from the page's style sheet, so they follow light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

__all__ = ["bars", "short"]

WIDTH: Final = 720
HEIGHT: Final = 180
LEFT: Final = 56
BOTTOM: Final = 24
TOP: Final = 12
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


def bars(title: str, points: Sequence[tuple[str, float]], unit: str) -> Markup:
    """Bars over named places: `(name, height)` from left to right, heights at least 0.

    Names are shown where there is room; each bar tells its value to pointer and screen reader.
    """
    top = _round_up(max((value for _, value in points), default=0.0))
    inner_w, inner_h = WIDTH - LEFT, HEIGHT - BOTTOM - TOP
    step = inner_w / max(1, len(points))
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">'
    ]
    for share in (0.0, 0.5, 1.0):
        y = TOP + inner_h * (1 - share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="scale" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{short(top * share)}</text>"
        )
    every = max(1, round(len(points) / 8))
    for place, (name, value) in enumerate(points):
        height = inner_h * value / top
        x = LEFT + place * step
        parts.append(
            f'<rect class="bar" x="{x + step * 0.15:.1f}" y="{TOP + inner_h - height:.1f}"'
            f' width="{step * 0.7:.1f}" height="{height:.1f}">'
            f"<title>{escape(name)}: {short(value)} {escape(unit)}</title></rect>"
        )
        if place % every == 0:
            parts.append(
                f'<text class="scale" x="{x + step / 2:.1f}" y="{HEIGHT - 6}"'
                f' text-anchor="middle">{escape(name)}</text>'
            )
    parts.append("</svg>")
    return Markup("".join(parts))  # noqa: S704 - what others wrote is escaped above


def short(value: float) -> str:
    """A number in at most five characters: `1.2k`, `34M`."""
    for bound, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= bound:
            return f"{value / bound:.3g}{letter}"
    return f"{value:.3g}"


def _round_up(value: float) -> float:
    """The least round number that is not below `value`; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{int(value)}") - 1 if value >= 1 else -6)
    while power * 10 < value:
        power *= 10
    return next(power * step for step in _STEPS if power * step >= value)
