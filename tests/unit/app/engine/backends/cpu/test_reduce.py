"""Reductions: right, of bounded chains, and of one order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from app.engine.backends.cpu.reduce import reduce, reduce_arg
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Array, Attributes
from gpugoblin.graph.numeric import agrees

OPERATOR = OPERATORS["reduce@1"]


def run(source: Array, attributes: Attributes, pool: Pool) -> Array:
    axes = attributes["axes"]
    assert isinstance(axes, tuple)
    keep = bool(attributes["keepdims"])
    shape = tuple(
        1 if axis in axes else extent
        for axis, extent in enumerate(source.shape)
        if keep or axis not in axes
    )
    out = np.full(shape, 1, source.dtype)
    with np.errstate(all="ignore"):
        reduce([source], [out], attributes, Context(pool))
    return out


def require_right(source: Array, attributes: Attributes, pool: Pool) -> None:
    (exact,) = OPERATOR.reference([source], attributes)
    bound = OPERATOR.tolerance.absolute
    assert bound is not None
    result = run(source, attributes, pool)
    assert agrees(result, exact, bound([source], attributes)).all()


@pytest.mark.parametrize("function", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize(
    "axes", [axes for count in range(4) for axes in itertools.combinations(range(3), count)]
)
@pytest.mark.parametrize("shape", [(3, 4, 5), (70, 1, 90), (1300, 2, 3), (2, 3, 5000)])
def test_functions_over_axes(
    function: str, axes: tuple[int, ...], shape: tuple[int, ...], pool: Pool
) -> None:
    draw = np.random.default_rng(sum(shape))
    source = (1 + draw.standard_normal(shape) * 0.01).astype(np.float32)
    require_right(source, {"function": function, "axes": axes, "keepdims": False}, pool)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3_000_000,), (0,)),
        ((1_000_000, 3), (0,)),
        ((3, 1_000_000), (1,)),
        ((2000, 1500), (0,)),
        ((2000, 1500), (0, 1)),
        ((40, 300, 250), (0, 2)),
        ((700, 3, 1200), (0, 2)),
    ],
)
def test_long_sums_keep_within_nested_blocks(
    shape: tuple[int, ...], axes: tuple[int, ...], pool: Pool
) -> None:
    """All of one sign and no zero mean: a plain running sum would be far outside the bound."""
    draw = np.random.default_rng(9)
    source = draw.random(shape, np.float32) + np.float32(1)
    require_right(source, {"function": "sum", "axes": axes, "keepdims": True}, pool)
    turned = source.transpose()
    axes = tuple(sorted(source.ndim - 1 - axis for axis in axes))
    require_right(turned, {"function": "sum", "axes": axes, "keepdims": True}, pool)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("shape", [(1000, 1300), (200_000, 4), (4, 200_000)])
def test_the_number_of_threads_does_not_matter(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    source = np.random.default_rng(10).standard_normal(shape).astype(np.float32)
    found = set()
    for threads in (1, 2, 5):
        pool = Pool(threads)
        attributes = {"function": "sum", "axes": axes, "keepdims": False}
        found.add(run(source, attributes, pool).tobytes())
        pool.close()
    assert len(found) == 1


@pytest.mark.parametrize(("function", "expected"), [("sum", 0.0), ("prod", 1.0), ("mean", np.nan)])
def test_reductions_of_nothing(function: str, expected: float, pool: Pool) -> None:
    attributes = {"function": function, "axes": (1,), "keepdims": False}
    result = run(np.empty((3, 0), np.float32), attributes, pool)
    np.testing.assert_array_equal(result, np.full(3, expected, np.float32))


@pytest.mark.parametrize(("function", "expected"), [("any", False), ("all", True)])
def test_bool_of_nothing_and_of_much(function: str, expected: bool, pool: Pool) -> None:
    attributes = {"function": function, "axes": (0,), "keepdims": False}
    assert run(np.empty((0, 2), np.bool_), attributes, pool).tolist() == [expected] * 2
    many = np.full((100_000, 3), expected)
    many[77_777, 1] = not expected
    assert run(many, attributes, pool).tolist() == [expected, not expected, expected]


def test_integers_wrap(pool: Pool) -> None:
    source = np.full((1000, 3), 2**31 - 1, np.int32)
    attributes = {"function": "sum", "axes": (0,), "keepdims": False}
    with np.errstate(all="ignore"):
        expected = source.sum(axis=0, dtype=np.int32)
    np.testing.assert_array_equal(run(source, attributes, pool), expected)


def test_nan_goes_through(pool: Pool) -> None:
    source = np.zeros((600, 400), np.float32)
    source[599, 7] = np.nan
    for function in ("sum", "max", "min", "prod"):
        attributes = {"function": function, "axes": (0,), "keepdims": False}
        assert np.flatnonzero(np.isnan(run(source, attributes, pool))).tolist() == [7]


@pytest.mark.parametrize("function", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("keepdims", [True, False])
def test_places_of_extremes(function: str, axis: int, keepdims: bool, pool: Pool) -> None:
    source = np.random.default_rng(11).integers(0, 50, (60, 70, 80)).astype(np.float32)
    source[3, 4, 5] = source[3, 4, 9] = np.nan
    find = np.argmax if function == "argmax" else np.argmin
    expected = find(source, axis=axis, keepdims=keepdims)
    out = np.full(expected.shape, -1, np.int64)
    attributes = {"function": function, "axis": axis, "keepdims": keepdims}
    reduce_arg([source], [out], attributes, Context(pool))
    np.testing.assert_array_equal(out, expected)
