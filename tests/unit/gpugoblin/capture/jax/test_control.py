"""Programs inside of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the extra jax is not installed")

import gpugoblin as gg  # noqa: E402
from gpugoblin.errors import CaptureError  # noqa: E402
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


def test_rules_of_a_program_are_never_taken_for_those_of_its_values() -> None:
    @jax.custom_vjp
    def straight(x: Any) -> Any:
        return jax.numpy.round(x)

    straight.defvjp(lambda x: (straight(x), None), lambda kept, seed: (seed,))

    @jax.custom_jvp
    def tripled(x: Any) -> Any:
        return jax.numpy.sin(x)

    tripled.defjvp(lambda x, t: (tripled(x[0]), 3 * t[0]))
    for f, values in ((straight, np.round(X)), (tripled, np.sin(X))):
        x = gg.array(X)
        found = gg.from_jax(lambda x, f=f: f(x) * 1, x)
        np.testing.assert_allclose(compute(found), values, atol=1e-6)
        with pytest.raises(CaptureError, match="no_gradient"):
            gg.gradient(found.sum(), x)
    # JAX's own rules give what the values give.
    x = gg.array(X)
    found = gg.gradient(gg.from_jax(jax.nn.softplus, x).sum(), x)
    np.testing.assert_allclose(compute(found), jax.nn.sigmoid(X), atol=1e-6)
