"""Bars: geometry that can be checked, text that cannot be markup."""

from __future__ import annotations

import math
import re

import pytest

from server_stub.web.charts import HEIGHT, WIDTH, Series, bars, curves, short


def heights(svg: str) -> list[float]:
    return [float(found) for found in re.findall(r'class="bar"[^>]* height="([\d.]+)"', svg)]


def test_heights_are_in_proportion() -> None:
    found = heights(bars("t", [("a", 1.0), ("b", 2.0), ("c", 0.0)], "units"))
    assert found[1] == pytest.approx(2 * found[0], abs=0.2)
    assert found[2] == 0.0


def test_all_is_inside_the_picture() -> None:
    svg = bars("t", [(str(n), 10.0**n) for n in range(12)], "units")
    for x, y, w, h in re.findall(
        r'<rect class="bar" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg
    ):
        assert 0 <= float(x) <= float(x) + float(w) <= WIDTH
        assert 0 <= float(y) <= float(y) + float(h) <= HEIGHT


def test_nothing_is_a_flat_chart() -> None:
    assert heights(bars("t", [("a", 0.0)], "units")) == [0.0]
    assert heights(bars("t", [], "units")) == []


def test_names_are_text() -> None:
    svg = bars('<b>"', [("<i>", 1.0)], "<u>")
    assert not re.search(r"<[biu]>", svg)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (2.5, "2.5"),
        (999, "999"),
        (1200, "1.2k"),
        (3.4e7, "34M"),
        (5e9, "5G"),
        (1e13, "10T"),
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text


def places(svg: str) -> list[list[tuple[float, float]]]:
    return [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.-]+),([\d.-]+)", line)]
        for line in re.findall(r'points="([^"]+)"', svg)
    ]


def test_a_curve_falls_where_its_numbers_fall() -> None:
    svg = curves("t", [Series("a", [(1, 4.0), (2, 2.0), (3, 1.0)])], "step")
    ((one, two, three),) = places(svg)
    assert one[0] < two[0] < three[0]
    assert one[1] < two[1] < three[1]
    assert (two[1] - one[1]) == pytest.approx(2 * (three[1] - two[1]), abs=0.2)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1, 1.0)],
        [(1, 0.0), (2, 0.0)],
        [(1, -5.0), (2, 1e30), (3, 1e-30)],
        [(1, math.nan), (2, math.inf), (3, 2.0)],
    ],
)
def test_curves_stay_inside_whatever_comes(points: list[tuple[float, float]]) -> None:
    svg = curves('<b>"', [Series("<i>", points), Series("none", [])], "<u>")
    assert not re.search(r"<[biu]>", svg)
    assert "nan" not in svg
    for x, y in (place for line in places(svg) for place in line):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
