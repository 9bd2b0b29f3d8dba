"""Pictures that are drawn here, as SVG elements of a page.

Owns: their geometry. Colours come from the page's style sheet, so they follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

__all__ = ["Series", "bars", "curves", "short"]

WIDTH: Final = 720
HEIGHT: Final = 180
LEFT: Final = 56
BOTTOM: Final = 24
TOP: Final = 12
RIGHT: Final = 8
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


@dataclass(frozen=True, slots=True)
class Series:
    """A curve: its name, and (x, y) in the order of x. What is not finite is left out."""

    name: str
    points: Sequence[tuple[float, float]]


def curves(title: str, series: Sequence[Series], unit: str) -> Markup:
    """Lines over one scale; `unit` names what x counts. The first curve is the main one."""
    drawn = [(one.name, [p for p in one.points if all(map(math.isfinite, p))]) for one in series]
    points = [point for _, some in drawn for point in some]
    low, high = _span([y for _, y in points])
    left, right = _span([x for x, _ in points], room=0.0)
    inner_w, inner_h = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - TOP

    def place(x: float, y: float) -> str:
        across = LEFT + inner_w * (x - left) / (right - left)
        return f"{across:.1f},{TOP + inner_h * (high - y) / (high - low):.1f}"

    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">'
    ]
    for share in (0.0, 0.5, 1.0):
        y = TOP + inner_h * (1 - share)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="scale" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{low + (high - low) * share:.3g}</text>"
        )
        x = LEFT + inner_w * share
        where = ("start", "middle", "end")[round(share * 2)]
        parts.append(
            f'<text class="scale" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{where}">'
            f"{escape(unit)} {left + (right - left) * share:.0f}</text>"
        )
    for number, (name, some) in enumerate(drawn):
        if not some:
            continue
        line = " ".join(place(x, y) for x, y in some)
        last = place(*some[-1]).split(",")
        parts.append(
            f'<g class="curve{number}"><title>{escape(name)}: {some[-1][1]:.6g}</title>'
            f'<polyline class="line" fill="none" points="{line}"/>'
            f'<circle class="dot" cx="{last[0]}" cy="{last[1]}" r="4"/></g>'
        )
    parts.append("</svg>")
    return Markup("".join(parts))  # noqa: S704 - what others wrote is escaped above


def _span(values: Sequence[float], room: float = 0.05) -> tuple[float, float]:
    """Least and largest with some room; never empty."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        half = abs(low) / 2 or 0.5
        return low - half, high + half
    beneath = low - room * (high - low)
    return max(0.0, beneath) if low >= 0 else beneath, high + room * (high - low)


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
