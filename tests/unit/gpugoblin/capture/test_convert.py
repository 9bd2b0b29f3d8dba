"""What counts as numbers."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

from gpugoblin.capture.caller import NOWHERE
from gpugoblin.capture.convert import as_number, constant_value, memory_value
from gpugoblin.errors import CaptureError


@pytest.mark.parametrize(
    ("given", "number"),
    [(1, 1), (1.5, 1.5), (True, True), (np.int32(3), 3), (np.float64(0.5), 0.5),
     (np.bool_(True), True), ("a", None), (np.ones(1), None), (1j, None), (np.str_("a"), None)],
)  # fmt: skip
def test_plain_numbers(given: object, number: object) -> None:
    assert as_number(given) == number


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ([1, 2], "int64[2]"), ([0.5], "float32[1]"), ([[True, False]], "bool[1, 2]"),
        ((np.float64(0.5), 1.0), "float32[2]"), (array.array("i", [1, 2]), "int32[2]"),
        ([np.ones(2, np.float32)] * 3, "float32[3, 2]"), (2.0, "float32[]"),
    ],
)  # fmt: skip
def test_numbers_in_memory(given: object, spec: str) -> None:
    assert str(memory_value(given, NOWHERE).spec) == spec


@pytest.mark.parametrize("given", [[np.ones(2)], array.array("d", [1.0])])
def test_a_dtype_that_came_along_counts(given: Any) -> None:
    assert memory_value(given, NOWHERE).spec.dtype == "float64"


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(CaptureError) as caught:
        memory_value([1j], NOWHERE)
    assert caught.value.code == "dtype_refused"


@pytest.mark.parametrize("given", ["a", {1: 2}, [[1], [1, 2]], None, object()])
def test_what_is_no_array(given: object) -> None:
    with pytest.raises(CaptureError) as caught:
        memory_value(given, NOWHERE)
    assert caught.value.code == "not_an_array"


def test_the_rank_is_bounded() -> None:
    with pytest.raises(CaptureError, match="of rank 9"):
        memory_value(np.ones((1,) * 9, np.float32), NOWHERE)


def test_a_constant_is_a_copy_in_c_order() -> None:
    value = constant_value(np.ones((2, 3), np.float32).T, NOWHERE)
    assert value.node.data is not None
    assert value.node.data.flags.c_contiguous
