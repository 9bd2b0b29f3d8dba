"""Bars: geometry that can be checked, text that cannot be markup."""

from __future__ import annotations

import re

import pytest

from server_stub.web.charts import HEIGHT, WIDTH, bars, short


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
