"""Reductions as functions: the same as the methods."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture import reductions
from gpugoblin.capture.lower import lower
from gpugoblin.graph.serialize import graph_hash
from tests.helpers.lazy import agree


@pytest.mark.parametrize("name", [n for n in reductions.__all__ if hasattr(gg.Array, n)])
def test_function_and_method_are_one(name: str) -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = gg.array(numbers)
    for axis in (None, 1):
        by_function = getattr(gg, name)(numbers, axis=axis, keepdims=True)
        by_method = getattr(x, name)(axis=axis, keepdims=True)
        hashes = {graph_hash(lower([y.value]).graph) for y in (by_function, by_method)}
        assert len(hashes) == 1


X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
@pytest.mark.parametrize("correction", [0.0, 1.0, 20.0])
@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:divide by zero")
def test_variance(axis: int | tuple[int, ...] | None, correction: float) -> None:
    agree(gg.var(X, axis=axis, correction=correction), X.var(axis, ddof=correction))
    agree(gg.std(X, axis=axis, correction=correction), X.std(axis, ddof=correction))


def test_counting_and_differences() -> None:
    agree(gg.count_nonzero(X > 0, axis=1), (X > 0).sum(1))
    agree(gg.diff(X, n=2, axis=0), np.diff(X, n=2, axis=0))
    agree(gg.diff(X, prepend=X[:, :1], append=X), np.diff(X, prepend=X[:, :1], append=X))
    agree(gg.diff(X > 0), np.diff(X > 0))


def test_sums_of_another_dtype() -> None:
    agree(gg.sum(X > 0, dtype="float32"), (X > 0).sum())
    found = gg.sum(np.ones(3, np.int32), dtype="int32")
    assert found.dtype == np.int32
    agree(gg.prod(X, dtype="float32"), X.prod())
