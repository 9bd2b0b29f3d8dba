"""What a handler can ask of its node."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.caller import NOWHERE
from gpugoblin.capture.onnx.node import MAX_KNOWN_ELEMENTS, Call, known_numbers
from gpugoblin.errors import CaptureError


def call(*inputs: gg.Array | None, **attributes: object) -> Call:
    return Call("Test", inputs, attributes, 22, 1, "Test 'one'", NOWHERE, lambda body: ())


def test_numbers_that_follow_from_numbers_in_memory() -> None:
    shape = gg.concat([gg.array([2, 3]), gg.array([4]) * 2], axis=0)
    found = known_numbers(shape)
    assert found is not None
    np.testing.assert_array_equal(found, [2, 3, 8])
    assert known_numbers(gg.zeros(MAX_KNOWN_ELEMENTS + 1)) is None
    assert known_numbers(gg.sum(gg.zeros(MAX_KNOWN_ELEMENTS + 1), keepdims=True)) is None


def test_attributes_and_inputs() -> None:
    one = call(gg.array([1.0]), None, gg.array([0, 1]), axes=[1, 2])
    assert one.ints("axes", 2) == [1, 2]
    assert one.ints("other", 2) == [0, 1]
    assert one.ints("other", 1) is None
    assert one.get("other", 5) == 5
    with pytest.raises(CaptureError, match="input 1 is missing"):
        one.array(1)
