"""Python's operators mean what NumPy's do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from tests.helpers.lazy import agree

LEFT = np.array([[5, -7, 3], [2, 9, 4]], np.int32)
RIGHT = np.array([2, 3, 1], np.int32)
BOTH = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_,
    operator.or_, operator.xor, operator.lshift, operator.rshift, operator.eq, operator.ne,
    operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("function", BOTH)
def test_integers(function: Callable[[Any, Any], Any]) -> None:
    agree(function(gg.array(LEFT), RIGHT), function(LEFT, RIGHT))
    agree(function(LEFT, gg.array(RIGHT)), function(LEFT, RIGHT))
    agree(function(gg.array(LEFT), 2), function(LEFT, 2))
    agree(function(9, gg.array(RIGHT)), function(np.int32(9), RIGHT))


@pytest.mark.parametrize("function", [operator.truediv, operator.pow])
def test_floats(function: Callable[[Any, Any], Any]) -> None:
    left, right = np.abs(LEFT).astype(np.float32), RIGHT.astype(np.float32)
    agree(function(gg.array(left), right), function(left, right))
    agree(function(2.0, gg.array(right)), function(2.0, right))


def test_one_operand() -> None:
    x = gg.array(LEFT)
    agree(-x, -LEFT)
    agree(~x, ~LEFT)
    agree(abs(x), abs(LEFT))
    assert +x is x
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
