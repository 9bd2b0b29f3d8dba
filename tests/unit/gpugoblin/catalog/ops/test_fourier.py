from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.ops.fourier import FFT, transform
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.numeric import agrees

NORMS = ("backward", "ortho", "forward")


def options(**given: Any) -> dict[str, Any]:
    return {"axes": (0,), "inverse": False, "kind": "c2c", "length": 0, "norm": "backward", **given}


def complex_of(pairs: Array) -> Array:
    return np.asarray(pairs[..., 0] + 1j * pairs[..., 1])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("extent", [1, 2, 5, 6])
def test_it_is_numpys(norm: Any, extent: int) -> None:
    generator = np.random.default_rng(0)
    pairs = generator.standard_normal((3, extent, 2))
    real = generator.standard_normal((3, extent))
    value = complex_of(pairs)
    cases = [
        (pairs, options(axes=(0, 1), norm=norm), np.fft.fft2(value, norm=norm)),
        (pairs, options(axes=(1,), norm=norm, inverse=True), np.fft.ifft(value, norm=norm)),
        (real, options(axes=(0, 1), norm=norm, kind="r2c"), np.fft.rfft2(real, norm=norm)),
        (
            real,
            options(axes=(1,), norm=norm, kind="r2c", inverse=True),
            np.fft.ihfft(real, norm=norm),
        ),
    ]
    for array, attributes, expected in cases:
        np.testing.assert_allclose(complex_of(transform(array, attributes)), expected, atol=1e-12)
    for length in (2 * extent - 1, 2 * extent - 2):
        if length:
            attributes = options(axes=(1,), norm=norm, kind="c2r", length=length)
            found = transform(pairs, {**attributes, "inverse": True})
            np.testing.assert_allclose(found, np.fft.irfft(value, length, norm=norm), atol=1e-12)
            expected = np.fft.hfft(value, length, norm=norm)
            np.testing.assert_allclose(transform(pairs, attributes), expected, atol=1e-12)


@given(
    some.lists(some.integers(1, 9), min_size=1, max_size=3),
    some.sampled_from(NORMS),
    some.booleans(),
    some.floats(-3, 3),
    some.integers(0, 2**32),
)
def test_float32_is_within_the_bound(
    shape: list[int], norm: str, inverse: bool, magnitude: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    axes = tuple(int(axis) for axis in generator.permutation(len(shape)))
    propagate = FFT.tolerance.propagate
    assert propagate is not None
    half = list(shape)
    half[axes[-1]] = shape[axes[-1]] // 2 + 1
    for kind, extents, length in (
        ("c2c", (*shape, 2), 0),
        ("r2c", tuple(shape), 0),
        ("c2r", (*half, 2), shape[axes[-1]]),
    ):
        array = (generator.standard_normal(extents) * 10.0**magnitude).astype(np.float32)
        attributes = options(axes=axes, norm=norm, inverse=inverse, kind=kind, length=length)
        outputs = FFT.reference([array], attributes)
        (bound,) = propagate([array], [None], outputs, attributes)
        assert bound is not None
        assert agrees(transform(array, attributes), outputs[0], bound).all()
        loose = np.full(array.shape, 0.01)
        (bound,) = propagate([array], [loose], outputs, attributes)
        moved = array + generator.uniform(-0.01, 0.01, array.shape).astype(np.float32)
        assert bound is not None
        assert agrees(transform(moved, attributes), outputs[0], bound).all()


@pytest.mark.parametrize(
    ("shape", "changes", "reason"),
    [
        ((4, 3), {}, "pairs"),
        ((4, 2), {"axes": (1,)}, "distinct axes"),
        ((4, 4, 2), {"axes": (0, 0)}, "distinct axes"),
        ((4, 2), {"axes": ()}, "distinct axes"),
        ((0, 2), {}, "extent 0"),
        ((4, 2), {"length": 6}, "only c2r"),
        ((4, 2), {"kind": "c2r", "length": 8}, "half plus 1 is 4"),
        ((1, 2), {"kind": "c2r"}, "half plus 1 is 1"),
    ],
)
def test_what_has_no_transform(
    shape: tuple[int, ...], changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(GraphError, match=reason):
        FFT.infer([TensorSpec("float32", shape)], options(**changes))
