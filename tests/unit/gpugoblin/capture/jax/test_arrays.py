"""Primitives that move and pick, at their edges."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the extra jax is not installed")

import gpugoblin as gg  # noqa: E402
from gpugoblin.errors import CaptureError  # noqa: E402
from tests.helpers.lazy import compute  # noqa: E402

jnp, lax = jax.numpy, jax.lax
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("config", [((1, 0, 0), (0, 2, 1)), ((-1, 1, 0), (2, -2, 2))])
def test_padding(config: tuple[tuple[int, int, int], ...]) -> None:
    def f(x: object) -> object:
        return lax.pad(x, 9.0, config)

    np.testing.assert_array_equal(compute(gg.from_jax(f, X)), f(X))


def test_windows_with_channels_last() -> None:
    image = np.random.default_rng(0).normal(size=(1, 6, 6, 2)).astype(np.float32)

    def f(x: object) -> object:
        return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    np.testing.assert_allclose(compute(gg.from_jax(f, image)), f(image), rtol=1e-5, atol=1e-6)


def test_places_outside_are_dropped_and_filled() -> None:
    def put(x: object, i: object) -> object:
        return jnp.asarray(x).at[i].set(1.0)

    places = np.array([1, 7], np.int32)
    np.testing.assert_array_equal(compute(gg.from_jax(put, X, places)), put(X, places))
    found = compute(gg.from_jax(lambda x, i: jnp.take(x, i, axis=1), X, places))
    assert np.isnan(found[:, 1]).all()


def test_sorting_by_several_keys_is_refused() -> None:
    with pytest.raises(CaptureError, match="several keys"):
        gg.from_jax(lambda x: lax.sort((x, x), num_keys=2), X)
