"""Derivatives against finite differences, second order, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree, compute

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 6)).astype(np.float32)
W = RANDOM.normal(size=(6, 3)).astype(np.float32)


def loss(x: gg.Array, w: gg.Array) -> gg.Array:
    return gg.mean(gg.tanh(x @ w) ** 2)


def plain(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> float:
    return float((np.tanh(x.astype(np.float64) @ w.astype(np.float64)) ** 2).mean())


def slopes(number: int) -> np.ndarray[Any, Any]:
    arguments = [X.astype(np.float64), W.astype(np.float64)]
    found = np.zeros_like(arguments[number])
    for place in np.ndindex(found.shape):
        for sign in (1, -1):
            moved = [one.copy() for one in arguments]
            moved[number][place] += sign * 1e-5
            found[place] += sign * plain(*moved) / 2e-5
    return found


def test_by_arrays() -> None:
    x, w = gg.array(X), gg.array(W)
    value = loss(x, w)
    by_x, by_w = gg.gradient(value, [x, w])
    agree(by_x, slopes(0))
    agree(by_w, slopes(1))
    agree(gg.gradient(value, w), slopes(1))
    hidden = x @ w
    agree(gg.gradient(gg.sum(hidden * hidden), hidden), 2 * (X @ W))


def test_of_functions() -> None:
    agree(gg.gradient(loss, 1)(X, W), slopes(1))
    value, (by_x, by_w) = gg.value_and_gradient(loss, (0, 1))(X, W)
    agree(value, plain(X, W))
    agree(by_x, slopes(0))
    agree(by_w, slopes(1))
    unused = gg.gradient(lambda x, w: gg.sum(x), 1)(X, W)
    np.testing.assert_array_equal(compute(unused), np.zeros_like(W))
    same = gg.array(X)
    first, second = gg.gradient(lambda a, b: gg.sum(a * a * b), (0, 1))(same, same)
    agree(first, 2 * X * X)
    agree(second, X * X)


def test_twice() -> None:
    cubic = gg.gradient(lambda x: gg.sum(gg.gradient(lambda y: gg.sum(y**3))(x)))
    agree(cubic(X), 6 * X, absolute=1e-5)


def test_layers_have_gradients() -> None:
    labels = np.array([0, 1, 2, 0])
    found = gg.gradient(lambda w: gg.mean(gg.nn.cross_entropy(X @ w, labels)))(W)
    scores = np.exp(X @ W)
    soft = scores / scores.sum(1, keepdims=True)
    agree(found, X.T @ (soft - np.eye(3)[labels]) / 4)


def test_what_is_refused() -> None:
    x = gg.array(X)
    for wrong in (
        lambda: gg.gradient(x, x),
        lambda: gg.gradient(gg.sum(x), gg.array(W)),
        lambda: gg.gradient(gg.sum(x), "x"),  # type: ignore[call-overload]
        lambda: gg.gradient(gg.sum, x),  # type: ignore[call-overload]
        lambda: gg.gradient(gg.sum, 3)(x),
        lambda: gg.gradient(lambda y: 1.0)(x),  # type: ignore[call-overload]
        lambda: gg.gradient(gg.sum)(np.arange(3)),
    ):
        with pytest.raises(CaptureError, match="gradient_refused") as caught:
            wrong()
        assert "test_gradients.py" in str(caught.value)
