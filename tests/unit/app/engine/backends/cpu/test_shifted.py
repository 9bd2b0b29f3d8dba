"""The convolution of shifted copies, for every kind of shape that it says it serves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.backends.cpu import shifted
from app.engine.backends.cpu.shifted import SHIFTED, Shifted, convolve, plan_blocks
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.ops.convolution import conv_windows
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, Attributes, TensorSpec


@pytest.fixture
def loop() -> Shifted:
    if SHIFTED is None:
        pytest.skip("the loops were not compiled: there was no C compiler")
    return SHIFTED


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def require_equal(loop: Shifted, data: Array, kernel: Array, attributes: Attributes) -> None:
    """The blocks, and the result in them, against the reference within its bound."""
    operator = get("conv")
    specs = [TensorSpec("float32", one.shape) for one in (data, kernel)]
    (spec,) = operator.infer(specs, attributes)
    out = np.full(spec.shape, np.nan, np.float32)
    windows = conv_windows(kernel.shape, attributes)
    groups = int(attributes["groups"])  # type: ignore[call-overload]
    blocks = plan_blocks(data.shape, kernel.shape, out, windows, groups)
    assert blocks is not None
    pool = Pool(2)
    try:
        convolve(loop, blocks, data, kernel, out, groups, Context(pool))
    finally:
        pool.close()
    (exact,) = operator.reference([data.astype(np.float64), kernel.astype(np.float64)], attributes)
    assert operator.tolerance.propagate is not None
    (bound,) = operator.tolerance.propagate([data, kernel], [None, None], [exact], attributes)
    assert bound is not None
    assert (np.abs(out - exact) <= bound).all()


@settings(max_examples=25, deadline=None)
@given(
    space=st.tuples(st.integers(16, 40), st.integers(20, 40)),
    extents=st.tuples(st.integers(1, 4), st.integers(2, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    dilation=st.tuples(st.integers(1, 2), st.just(1)),
    channels=st.integers(1, 3),
    outputs=st.sampled_from([8, 9, 12, 16]),
    groups=st.integers(1, 2),
    low=st.tuples(st.integers(-2, 3), st.integers(-1, 2)),
)
def test_any_plane(
    space: tuple[int, int],
    extents: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    channels: int,
    outputs: int,
    groups: int,
    low: tuple[int, int],
) -> None:
    if SHIFTED is None:
        pytest.skip("the loops were not compiled: there was no C compiler")
    attributes: Attributes = {
        "stride": stride, "dilation": dilation, "low": low, "high": (2, 1), "between": (0, 0),
        "groups": groups,
    }  # fmt: skip
    data = drawn(2, channels * groups, *space)
    require_equal(SHIFTED, data, drawn(outputs * groups, channels, *extents, seed=2), attributes)


def test_many_blocks_and_long_sums(loop: Shifted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shifted, "BLOCK_ELEMENTS", 2_000)
    plain: Attributes = {
        "stride": (1, 1), "dilation": (1, 1), "low": (1, 1), "high": (1, 1), "between": (0, 0),
        "groups": 1,
    }  # fmt: skip
    require_equal(loop, drawn(2, 150, 21, 25), drawn(20, 150, 3, 3, seed=2), plain)


def test_a_line(loop: Shifted) -> None:
    line: Attributes = {
        "stride": (2,), "dilation": (3,), "low": (4,), "high": (2,), "between": (0,), "groups": 1,
    }  # fmt: skip
    require_equal(loop, drawn(3, 5, 60), drawn(8, 5, 4, seed=2), line)


def test_nan_stays_where_it_is(loop: Shifted) -> None:
    data, kernel = drawn(1, 2, 8, 24), drawn(8, 2, 3, 3, seed=2)
    data[0, 0, 4, 10] = np.nan
    out = np.empty((1, 8, 6, 22), np.float32)
    windows = conv_windows(kernel.shape, {
        "stride": (1, 1), "dilation": (1, 1), "low": (0, 0), "high": (0, 0), "between": (0, 0),
    })  # fmt: skip
    blocks = plan_blocks(data.shape, kernel.shape, out, windows, 1)
    assert blocks is not None
    pool = Pool(1)
    try:
        convolve(loop, blocks, data, kernel, out, 1, Context(pool))
    finally:
        pool.close()
    wrong = np.isnan(out).all(axis=1)[0]
    assert np.argwhere(wrong).tolist() == [[y, x] for y in (2, 3, 4) for x in (8, 9, 10)]
    assert np.isnan(out).sum() == 9 * 8


@pytest.mark.parametrize(
    ("wide", "kernel", "shape"),
    [
        ((1, 4, 8, 8), (4, 4, 3, 3), (1, 4, 6, 6)), ((1, 8, 9, 9), (8, 8, 1, 1), (1, 8, 9, 9)),
        ((1, 8, 9, 9), (8, 8, 3, 3), (1, 8, 7, 7)),
        ((1, 8, 5, 5, 5), (8, 8, 2, 2, 2), (1, 8, 4, 4, 4)),
    ],
)  # fmt: skip
def test_what_goes_another_way(
    wide: tuple[int, ...], kernel: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    plain = {name: (value,) * (len(wide) - 2) for name, value in
             (("stride", 1), ("dilation", 1), ("low", 0), ("high", 0), ("between", 0))}  # fmt: skip
    windows = conv_windows(kernel, plain)
    assert plan_blocks(wide, kernel, np.empty(shape, np.float32), windows, 1) is None
    assert plan_blocks((1, 8, 40, 40), (8, 8, 3, 3), np.empty((1, 8, 38, 38)), windows, 1) is None
