"""The kernels of class `exact`: the same bits as the definition however they are cut."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from app.engine.backends.cpu.exact import COLUMNS, EXACT_KERNELS, ROWS
from app.engine.backends.cpu.kernels import KERNELS
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.exact import EXACT_RULES
from gpugoblin.catalog.spec import Array, Attributes


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(
    key: str, reads: list[Array], out: Array, attributes: Mapping[str, object], pool: Pool
) -> None:
    given: Attributes = attributes  # type: ignore[assignment]
    EXACT_KERNELS[key](reads, [out], given, Context(pool))


CASES: dict[str, tuple[str, list[Array], dict[str, object]]] = {
    "several blocks": (
        "matmul@1",
        [drawn(ROWS + 3, 40), drawn(40, COLUMNS + 5, seed=2)],
        {"transpose_a": False, "transpose_b": False},
    ),
    "batch, turned": (
        "matmul@1",
        [drawn(2, 9, 4), drawn(2, 5, 9, seed=2)],
        {"transpose_a": True, "transpose_b": True},
    ),
    "groups": (
        "conv@1",
        [drawn(2, 4, 8), drawn(6, 2, 3, seed=2)],
        {"stride": (1,), "dilation": (1,), "low": (1,), "high": (0,), "between": (0,), "groups": 2},
    ),
    "middle axis": (
        "reduce@1",
        [drawn(3, 700, 2)],
        {"function": "sum", "axes": (1,), "keepdims": True},
    ),
    "chain": ("scan_reduce@1", [drawn(3, 9)], {"function": "sum", "axis": 1, "reverse": True}),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_kernels_have_the_bits_of_the_definition(name: str, threads: int) -> None:
    key, reads, attributes = CASES[name]
    given: Attributes = attributes  # type: ignore[assignment]
    wanted = np.asarray(EXACT_RULES[key](reads, given))
    out = np.full(wanted.shape, np.nan, np.float32)
    pool = Pool(threads)
    try:
        run(key, reads, out, attributes, pool)
    finally:
        pool.close()
    np.testing.assert_array_equal(out.view(np.uint32), wanted.view(np.uint32))


def test_integers_use_the_usual_kernels() -> None:
    left, right = np.arange(6, dtype=np.int32).reshape(2, 3), np.ones((3, 2), np.int32)
    out = np.zeros((2, 2), np.int32)
    pool = Pool(1)
    try:
        run("matmul@1", [left, right], out, {"transpose_a": False, "transpose_b": False}, pool)
    finally:
        pool.close()
    assert out.tolist() == (left @ right).tolist()


def test_scattered_maxima_that_are_zero_are_positive() -> None:
    data, rows = np.full((2,), -0.0, np.float32), np.full((1,), -0.0, np.float32)
    out = np.empty_like(data)
    pool = Pool(1)
    try:
        run("scatter@1", [data, np.array([1]), rows], out, {"axis": 0, "function": "max"}, pool)
    finally:
        pool.close()
    assert not np.signbit(out).any()


def test_there_is_a_kernel_for_each() -> None:
    assert set(EXACT_KERNELS) == set(KERNELS)
