"""What each function gives is what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import MemorySource
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import CaptureError
from gpugoblin.graph.interpret import interpret

X = np.random.default_rng(0).integers(-5, 5, (3, 4, 5)).astype(np.float32)
LINE = np.array([3, -1, 2, 2, 7], np.int32)


def value_of(lazy: gg.Array) -> Array:
    made = lower([lazy.value])
    arrays = [s.array for s in made.sources if isinstance(s, MemorySource)]
    return interpret(made.graph, arrays)[0]


CASES: dict[str, tuple[Callable[[], gg.Array], Array]] = {
    "flip": (lambda: gg.flip(X), np.flip(X)),
    "flip one": (lambda: gg.flip(X, axis=-1), np.flip(X, -1)),
    "flip two": (lambda: gg.flip(X, axis=(2, 0)), np.flip(X, (0, 2))),
    "roll": (lambda: gg.roll(X, 2, axis=1), np.roll(X, 2, 1)),
    "roll back": (lambda: gg.roll(X, -7, axis=-1), np.roll(X, -7, -1)),
    "roll all": (lambda: gg.roll(X, 13), np.roll(X, 13)),
    "roll two": (lambda: gg.roll(X, (1, 2), axis=(0, 2)), np.roll(X, (1, 2), (0, 2))),
    "roll both": (lambda: gg.roll(X, 1, axis=(0, 2)), np.roll(X, 1, (0, 2))),
    "moveaxis": (lambda: gg.moveaxis(X, 0, -1), np.moveaxis(X, 0, -1)),
    "moveaxis two": (lambda: gg.moveaxis(X, (0, 1), (2, 0)), np.moveaxis(X, (0, 1), (2, 0))),
    "pad": (lambda: gg.pad(X, 1), np.pad(X, 1)),
    "pad pair": (lambda: gg.pad(LINE, (1, 2), value=9), np.pad(LINE, (1, 2), constant_values=9)),
    "pad pairs": (
        lambda: gg.pad(X, [(0, 1), (2, 0), (1, 1)]),
        np.pad(X, [(0, 1), (2, 0), (1, 1)]),
    ),
    "sort": (lambda: gg.sort(X, axis=1), np.sort(X, 1)),
    "sort down": (lambda: gg.sort(X, descending=True), -np.sort(-X)),
    "argsort": (lambda: gg.argsort(X, axis=0), np.argsort(X, 0, kind="stable")),
    "argsort down": (
        lambda: gg.argsort(LINE, descending=True),
        np.argsort(-LINE, kind="stable"),
    ),
    "searchsorted": (
        lambda: gg.searchsorted(np.sort(LINE), LINE),
        np.searchsorted(np.sort(LINE), LINE),
    ),
    "searchsorted right": (
        lambda: gg.searchsorted(np.sort(LINE), X.astype(np.int64), side="right"),
        np.searchsorted(np.sort(LINE), X, "right"),
    ),
    "cumulative_sum": (lambda: gg.cumulative_sum(X, axis=2), np.cumsum(X, 2)),
    "cumulative_sum of a line": (lambda: gg.cumulative_sum(LINE), np.cumsum(LINE, dtype="i8")),
    "cumulative_sum from 0": (
        lambda: gg.cumulative_sum(LINE, include_initial=True, dtype="int32"),
        np.array([0, 3, 2, 4, 6, 13], np.int32),
    ),
    "cumulative_prod": (lambda: gg.cumulative_prod(X, axis=0), np.cumprod(X, 0)),
    "cumulative_prod from 1": (
        lambda: gg.cumulative_prod(LINE, include_initial=True),
        np.array([1, 3, -3, -6, -12, -84]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_numpys(case: str) -> None:
    make, expected = CASES[case]
    found = value_of(make())
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: gg.flip(X, axis=3), "there is no axis 3"),
        (lambda: gg.roll(X, (1, 2, 3), axis=(0, 1)), "3 shifts do not fit 2 axes"),
        (lambda: gg.moveaxis(X, (0, 1), 2), "do not pair up"),
        (lambda: gg.pad(X, [(1, 1)]), "no pair for each of 3 axes"),
        (lambda: gg.pad(X, -1), "integers of 0 or more"),
        (lambda: gg.pad(LINE, 1, value=0.5), "does not combine"),
        (lambda: gg.searchsorted(X, LINE), "the first is no line"),
        (
            lambda: gg.searchsorted(LINE, LINE, side="up"),  # type: ignore[arg-type]
            "no side 'up'",
        ),
        (lambda: gg.cumulative_sum(X), "no axis is named"),
        (lambda: gg.sort(np.ones(3, np.bool_)), "sort of bool"),
    ],
)
def test_what_cannot_be_says_why(make: Callable[[], gg.Array], said: str) -> None:
    with pytest.raises(CaptureError, match=said) as raised:
        make()
    assert "test_arranging.py" in str(raised.value)
