"""The lazy array: its manners beside ndarrays, and what it explains when numbers are wanted."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError

NUMBERS = np.ones((3, 4), np.float32)
X = gg.array(NUMBERS)
N = gg.array(np.arange(4))


def test_attributes() -> None:
    assert (X.shape, X.dtype, X.ndim, X.size, X.nbytes, len(X)) == (
        (3, 4), np.dtype("float32"), 2, 12, 48, 3,
    )  # fmt: skip
    assert repr(X.T + 1) == "<gg.Array float32[4, 3] from add, nothing computed yet>"
    assert "test_array.py" in repr(X)
    with pytest.raises(TypeError):
        len(X.sum())


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le",
             "gt", "ge"],
)  # fmt: skip
def test_every_operator_takes_arrays_and_numbers_on_both_sides(name: str) -> None:
    apply = getattr(operator, name)
    for left, right in ((X, X), (X, 2), (2.5, X), (X, NUMBERS), (NUMBERS, X)):
        result = apply(left, right)
        assert isinstance(result, gg.Array)
        assert result.shape == (3, 4)


@pytest.mark.parametrize("name", ["and_", "or_", "xor"])
def test_bits(name: str) -> None:
    apply = getattr(operator, name)
    for left, right in ((N, N), (N, 3), (3, N), (N > 1, N > 2), (True, N > 1)):
        assert isinstance(apply(left, right), gg.Array)


def test_signs() -> None:
    assert (-X).shape == abs(X).shape == (+X).shape == (3, 4)
    assert (~N).dtype == np.int64
    assert (X // 2).dtype == np.float32


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        (bool, "gg.where"), (lambda x: [row for row in x], "x[i]"), (float, "compute()"),
        (int, "compute()"), (lambda x: [1, 2][x], "compute()"), (np.asarray, "gg"),
        (lambda x: np.median(x), "gg"), (lambda x: np.add.reduce(x), "gg"),
        (lambda x: np.heaviside(x, x), "gg"), (lambda x: x.__setitem__(0, 1), "gg.where"),
        (lambda x: x and x, "gg.where"), (lambda x: 0 < x < 1, "gg.where"),
    ],
)  # fmt: skip
def test_wanting_numbers_is_explained(use: Callable[[Any], object], hint: str) -> None:
    with pytest.raises(CaptureError) as caught:
        use(X)
    assert caught.value.code == "value_needed"
    assert hint in caught.value.next_step
    assert "[3, 4]" in caught.value.what
    assert "test_array.py" in caught.value.what


def test_it_is_in_no_set() -> None:
    with pytest.raises(TypeError):
        hash(X)


def test_a_float64_array_beside_it_decides() -> None:
    for result in (X + np.ones(4), np.ones(4) * X, X @ np.ones((4, 2))):
        assert isinstance(result, gg.Array)
        assert result.dtype == np.float64
