"""Functions beside the methods: clip, repeat, tensordot, concat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree, compute

NUMBERS = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_clip() -> None:
    np.testing.assert_array_equal(
        compute(gg.clip(NUMBERS, min=-1, max=0.5)), np.clip(NUMBERS, -1, 0.5)
    )
    np.testing.assert_array_equal(compute(gg.clip(NUMBERS)), NUMBERS)


def test_repeating() -> None:
    for repeats in (0, 1, 3):
        agree(gg.repeat(NUMBERS, repeats, axis=1), NUMBERS.repeat(repeats, 1))
    agree(gg.repeat(NUMBERS, 2), NUMBERS.repeat(2))
    for counts in ((2,), (1, 3), (2, 1, 2), ()):
        agree(gg.tile(NUMBERS, counts), np.tile(NUMBERS, counts))
    for wrong in (lambda: gg.repeat(NUMBERS, -1), lambda: gg.tile(NUMBERS, (-1,))):
        with pytest.raises(CaptureError, match="argument_refused"):
            wrong()


def test_apart_and_together() -> None:
    parts = gg.unstack(NUMBERS, axis=1)
    assert len(parts) == 4
    agree(parts[2], NUMBERS[:, 2])
    first, second = gg.broadcast_arrays(NUMBERS, NUMBERS[:1])
    agree(second, np.broadcast_to(NUMBERS[:1], (3, 4)))
    assert first.shape == (3, 4)
    assert gg.broadcast_arrays() == ()


@pytest.mark.parametrize("axes", [0, 1, 2, ([1], [1]), ([0, 1], [0, 1]), ([0], [-2])])
def test_tensordot(axes: Any) -> None:
    other = NUMBERS.reshape(4, 3) if axes == 1 else NUMBERS
    agree(gg.tensordot(NUMBERS, other, axes=axes), np.tensordot(NUMBERS, other, axes))


def test_vecdot() -> None:
    agree(gg.vecdot(NUMBERS, NUMBERS, axis=0), (NUMBERS**2).sum(0))


def test_astype_follows_the_catalogs_rule() -> None:
    numbers = np.array([2.7, -2.7, np.nan, np.inf, -np.inf], np.float32)
    result = compute(gg.astype(numbers, "int32"))
    np.testing.assert_array_equal(result, [2, -2, 0, 2**31 - 1, -(2**31)])
    assert gg.array(numbers).astype("float64").dtype == np.float64
    with pytest.raises(CaptureError, match="dtype_refused"):
        gg.array(numbers).astype("complex64")


def test_array_names_what_it_cannot_take() -> None:
    for wrong in ("text", {"a": 1}, [[1, 2], [3]], object(), np.array([None])):
        with pytest.raises(CaptureError):
            gg.array(wrong)  # type: ignore[arg-type]
