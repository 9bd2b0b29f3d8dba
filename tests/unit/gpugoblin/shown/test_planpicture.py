"""Plans as pictures."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from gpugoblin.shown.planpicture import bars_svg


def widths(svg: str) -> list[float]:
    return [float(one) for one in re.findall(r'y="\d+" width="([\d.]+)" height="13"', svg)]


def test_bars_of_a_group_have_one_scale() -> None:
    svg = bars_svg("a plan", [("time", [("this", 5.0, "5 s"), ("alone", 10.0, "10 s")])])
    ElementTree.fromstring(svg)  # noqa: S314 - our own text
    first, second = widths(svg)
    assert second == 2 * first


def test_text_is_escaped_and_odd_sizes_are_drawn_as_nothing() -> None:
    svg = bars_svg("<b>", [("&", [("x", math.inf, "<"), ("y", 0.0, ">"), ("z", math.nan, "?")])])
    ElementTree.fromstring(svg)  # noqa: S314 - our own text
    assert widths(svg) == [0.0, 0.0, 0.0]
    assert "<b>" not in svg
