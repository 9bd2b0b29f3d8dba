"""Programs inside of programs."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the extra jax is not installed")

import gpugoblin as gg  # noqa: E402
from tests.helpers.lazy import compute  # noqa: E402

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_calls_are_followed() -> None:
    inner = jax.jit(lambda x: jax.checkpoint(lambda y: jax.numpy.sin(y) * 2)(x))
    np.testing.assert_allclose(compute(gg.from_jax(inner, X)), np.sin(X) * 2, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_are_written_out(reverse: bool) -> None:
    def f(x: object) -> object:
        return jax.lax.scan(lambda c, r: (c + r, c * r), X[0], x, reverse=reverse)

    for found, expected in zip(gg.from_jax(f, X), f(X), strict=True):
        np.testing.assert_allclose(compute(found), expected, rtol=1e-6)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_branches(which: int) -> None:
    def f(n: object, x: object) -> object:
        return jax.lax.switch(n, [lambda a: a, lambda a: -a, lambda a: a * a], x)

    found = compute(gg.from_jax(f, np.array(which, np.int32), X))
    np.testing.assert_array_equal(found, [X, -X, X * X][which])
