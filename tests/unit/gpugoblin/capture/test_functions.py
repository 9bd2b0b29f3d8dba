"""Functions beside the methods: creation, clip, softmax, concat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import MemorySource
from gpugoblin.errors import CaptureError
from gpugoblin.graph.interpret import interpret

NUMBERS = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def compute(array: gg.Array) -> np.ndarray[Any, Any]:
    made = lower([array.value])
    inputs = [s.array for s in made.sources if isinstance(s, MemorySource)]
    return interpret(made.graph, inputs)[0]


def test_creation() -> None:
    np.testing.assert_array_equal(compute(gg.zeros((2, 3))), np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(compute(gg.ones(3, dtype="bool")), np.ones(3, bool))
    np.testing.assert_array_equal(compute(gg.full((), 2.5)), np.float32(2.5))
    assert gg.full(2, 3).dtype == np.int64
    assert gg.full(2, True).dtype == np.bool_


@pytest.mark.parametrize("arguments", [(5,), (2, 7), (1, 10, 3), (0.5, 2.0, 0.5), (5, 1), (0,)])
def test_arange(arguments: tuple[float, ...]) -> None:
    result = compute(gg.arange(*arguments))  # type: ignore[arg-type]
    expected = np.arange(*arguments)
    np.testing.assert_allclose(result, expected)
    assert result.dtype == (np.float32 if expected.dtype.kind == "f" else np.int64)


def test_a_long_arange_is_an_input() -> None:
    assert len(lower([gg.arange(100_000).value]).sources) == 1


def test_clip_and_softmax() -> None:
    np.testing.assert_array_equal(
        compute(gg.clip(NUMBERS, min=-1, max=0.5)), np.clip(NUMBERS, -1, 0.5)
    )
    np.testing.assert_array_equal(compute(gg.clip(NUMBERS)), NUMBERS)
    large = NUMBERS * 1000
    expected = np.exp(large - large.max(0)) / np.exp(large - large.max(0)).sum(0)
    np.testing.assert_allclose(compute(gg.softmax(large, axis=0)), expected, rtol=1e-5)


def test_astype_follows_the_catalogs_rule() -> None:
    numbers = np.array([2.7, -2.7, np.nan, np.inf, -np.inf], np.float32)
    result = compute(gg.astype(numbers, "int32"))
    np.testing.assert_array_equal(result, [2, -2, 0, 2**31 - 1, -(2**31)])
    with pytest.raises(CaptureError, match="dtype_refused"):
        gg.array(numbers).astype("float64")


def test_array_names_what_it_cannot_take() -> None:
    for wrong in ("text", {"a": 1}, [[1, 2], [3]], object(), np.array([None])):
        with pytest.raises(CaptureError):
            gg.array(wrong)  # type: ignore[arg-type]
