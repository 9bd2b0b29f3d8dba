from __future__ import annotations

import pytest

from gpugoblin.catalog import rules
from gpugoblin.catalog.spec import Attributes, Cost, Split, TensorSpec
from gpugoblin.errors import GraphError

F32 = TensorSpec("float32", (2, 3))
I64 = TensorSpec("int64", (4,))


def test_typed_attributes() -> None:
    attributes: Attributes = {"a": 1, "b": True, "c": (1, 2), "d": "x"}
    assert rules.int_attribute(attributes, "a") == 1
    assert rules.bool_attribute(attributes, "b") is True
    assert rules.ints_attribute(attributes, "c") == (1, 2)
    assert rules.text_attribute(attributes, "d") == "x"
    with pytest.raises(TypeError, match="kind tuple"):
        rules.ints_attribute(attributes, "a")


def test_dtype_rules_name_what_is_accepted() -> None:
    assert rules.same_dtype("op", [F32, F32], ("float32",)) == "float32"
    with pytest.raises(GraphError, match="float32, int64; it takes operands of one dtype"):
        rules.same_dtype("op", [F32, I64], ("float32", "int64"))
    with pytest.raises(GraphError, match="op does not take int64; it takes float32"):
        rules.require_dtype("op", I64, ("float32",))


def test_axes_and_ranks() -> None:
    assert rules.require_axis("op", "axis", 1, 2) == 1
    for axis in (-1, 2):
        with pytest.raises(GraphError, match="attribute_invalid"):
            rules.require_axis("op", "axis", axis, 2)
    rules.require_rank("op", F32, 2)
    with pytest.raises(GraphError, match=r"rank 2 or more is needed"):
        rules.require_rank("op", I64, 2)
    assert "(2, 3), (4,)" in str(rules.shapes_error("op", [F32, I64], "why"))


def test_moved_counts_bytes_once() -> None:
    assert rules.moved([F32, I64], [F32], 7, 9) == Cost(7, 24 + 32, 24, 9)


def test_parallel_axes() -> None:
    assert rules.parallel_axes(2, whole=(1,)) == (
        Split("i0", "parallel", (0,), 0),
        Split("i1", "whole", (1,), 1),
    )
