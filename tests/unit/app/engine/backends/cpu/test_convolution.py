from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.convolution import conv
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array


def test_more_than_one_block() -> None:
    generator = np.random.default_rng(0)
    data = generator.integers(-3, 4, (2, 8, 130, 140)).astype(np.float32)
    kernel = generator.integers(-3, 4, (4, 4, 5, 5)).astype(np.float32)
    names = ("stride", "dilation", "low", "high", "between")
    numbers = ((1, 1), (1, 1), (2, 2), (2, 2), (0, 0))
    given = {"groups": 2, **dict(zip(names, numbers, strict=True))}
    out = np.empty((2, 4, 130, 140), np.float32)
    threads = Pool(2)
    try:
        conv([data, kernel], [out], given, Context(threads))
    finally:
        threads.close()
    # Small integers: every order of the sums is exact.
    np.testing.assert_array_equal(out, get("conv").reference([data, kernel], given)[0])


def run(data: Array, kernel: Array, stride: int, groups: int) -> Array:
    rank = data.ndim - 2
    given = {"stride": (stride,) * rank, "dilation": (1,) * rank, "low": (1,) * rank,
             "high": (0,) * rank, "between": (0,) * rank, "groups": groups}  # fmt: skip
    (expected,) = get("conv").reference([data, kernel], given)
    out = np.empty_like(expected)
    threads = Pool(2)
    try:
        conv([data, kernel], [out], given, Context(threads))
    finally:
        threads.close()
    np.testing.assert_array_equal(out, expected)
    return out


@pytest.mark.parametrize(
    ("data", "kernel", "stride", "groups"),
    [
        ((7, 40, 5, 4), (6, 40, 3, 2), 1, 1),  # some examples together
        ((2, 300, 9, 8), (3, 300, 5, 2), 2, 1),  # parts of the kernel
        ((3, 6, 200), (4, 3, 150), 1, 2),  # a kernel as long as the data
        ((2, 3, 6, 70, 60), (2, 3, 2, 3, 2), 1, 1),
        ((2, 70, 30, 31), (70, 1, 3, 3), 2, 70),  # depthwise
        ((1, 2, 900), (2, 1, 3), 1, 2),
    ],
)
def test_every_way_to_cut(
    data: tuple[int, ...], kernel: tuple[int, ...], stride: int, groups: int
) -> None:
    generator = np.random.default_rng(1)
    numbers = [generator.integers(-3, 4, shape).astype(np.float32) for shape in (data, kernel)]
    assert run(numbers[0], numbers[1], stride, groups).any()
