"""Reductions as functions: the same as the methods."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture import reductions
from gpugoblin.capture.lower import lower
from gpugoblin.graph.serialize import graph_hash


@pytest.mark.parametrize("name", reductions.__all__)
def test_function_and_method_are_one(name: str) -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = gg.array(numbers)
    for axis in (None, 1):
        by_function = getattr(gg, name)(numbers, axis=axis, keepdims=True)
        by_method = getattr(x, name)(axis=axis, keepdims=True)
        hashes = {graph_hash(lower([y.value]).graph) for y in (by_function, by_method)}
        assert len(hashes) == 1
