"""Functions written for JAX give what JAX gives, and are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the extra jax is not installed")

import gpugoblin as gg  # noqa: E402
from gpugoblin.errors import CaptureError  # noqa: E402
from tests.helpers.lazy import compute  # noqa: E402

jnp, lax = jax.numpy, jax.lax
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 6)).astype(np.float32)
W = RANDOM.normal(size=(6, 5)).astype(np.float32)
IMAGE = RANDOM.normal(size=(2, 3, 8, 8)).astype(np.float32)
KERNEL = RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float32)
PLACES = np.array([0, 3, 1], np.int32)

PROGRAMS: dict[str, tuple[Any, ...]] = {
    "layer": (lambda x, w: jnp.tanh(x @ w).mean(0), X, W),
    "softmax": (lambda x: jax.nn.softmax(x), X),
    "gelu": (lambda x: jax.nn.gelu(x) + jax.nn.gelu(x, approximate=False), X),
    "silu": (lambda x: jax.nn.silu(x) + jax.nn.relu(x) + jax.nn.softplus(x), X),
    "norm": (lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True)), X),
    "conv": (lambda a, b: lax.conv_general_dilated(a, b, (2, 1), "SAME"), IMAGE, KERNEL),
    "pool": (lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2),
                                         "VALID"), IMAGE),
    "grad": (jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)), W, X),
    "grad of conv": (jax.grad(lambda b, a: jnp.sum(
        lax.conv_general_dilated(a, b, (2, 2), "SAME") ** 2)), KERNEL, IMAGE),
    "grad of rows": (jax.grad(lambda t, i: jnp.sum(t[i] ** 2)), X, PLACES),
    "hessian": (jax.hessian(lambda v: jnp.sum(jnp.sin(v) ** 2)), X[0]),
    "rows": (lambda x, i: x[i], X, PLACES),
    "elements": (lambda x, i: x[i, i], X, PLACES),
    "along": (lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1), X),
    "outside": (lambda x: jnp.take(x, jnp.array([0, 9]), axis=0), X),
    "put": (lambda x, i: jnp.asarray(x).at[:, i].add(2.0), X, PLACES),
    "sorted": (lambda x: jnp.cumsum(x, axis=1) + jnp.sort(x, axis=1), X),
    "einsum": (lambda x, w: jnp.einsum("bi,ij->jb", x, w), X, W),
    "where": (lambda x: jnp.where(x > 0, x, -(x**3)), X),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), jnp.zeros(6), x), X),
    "vmap": (lambda x, w: jax.vmap(lambda r: jnp.sort(r @ w))(x), X, W),
    "topk": (lambda x: lax.top_k(x, 2), X),
    "box": (lambda x, i: lax.dynamic_slice(x, (i[1], i[1]), (2, 2)), X, PLACES),
    "box put": (lambda x: lax.dynamic_update_slice(x, jnp.ones((2, 2)), (1, 3)), X),
    "pad": (lambda x: jnp.roll(jnp.pad(x, ((1, 2), (0, 1))), 2, axis=1)[::-1], X),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda a: a + 1, lambda a: a * 2, x), X),
    "median": (lambda x: jnp.std(x, axis=0) + jnp.median(x), X),
    "tree": (lambda p, x: {"y": x @ p["w"] + p["b"]}, {"w": W, "b": W[0]}, X),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_same(name: str) -> None:
    f, *arguments = PROGRAMS[name]
    expected = jax.tree_util.tree_leaves(f(*arguments))
    found = jax.tree_util.tree_leaves(gg.from_jax(f, *arguments))
    for one, wanted in zip(found, expected, strict=True):
        result = compute(one)
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, rtol=2e-4, atol=2e-5)


def test_lazy_arguments_stay_lazy_and_numbers_are_numbers() -> None:
    found = gg.from_jax(lambda x, s: x * s, gg.array(X) + 1.0, 2.0)
    assert isinstance(found, gg.Array)
    np.testing.assert_allclose(compute(found), (X + 1) * 2, rtol=1e-6)


def refused(f: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        gg.from_jax(f, *arguments)
    assert "test_program.py" in str(caught.value)
    return str(caught.value)


def test_what_is_refused() -> None:
    loop = refused(lambda x: lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, x), X)
    assert "lax.scan" in loop
    assert "steps" in refused(lambda x: lax.scan(lambda c, _: (c, c), x, None, length=999), X)
    assert "not computed here" in refused(lambda x: jnp.fft.fft(x), X)
    assert "jax_enable_x64" in refused(lambda i: i, np.arange(3))
