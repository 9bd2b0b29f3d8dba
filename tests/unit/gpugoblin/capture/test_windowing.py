"""One number, or one an axis."""

from __future__ import annotations

from gpugoblin.capture.windowing import each, pads


def test_each() -> None:
    assert each(2, 3) == (2, 2, 2)
    assert each([1, 2], 2) == (1, 2)


def test_pads() -> None:
    assert pads(1, 2) == ((1, 1), (1, 1))
    assert pads([1, 2], 2) == ((1, 2), (1, 2))
    assert pads([(0, 1), (2, 3)], 2) == ((0, 2), (1, 3))
