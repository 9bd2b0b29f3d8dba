"""Applying an operator: the catalog's reasons, with the researcher's line."""

from __future__ import annotations

import pytest

from gpugoblin.capture.applying import apply, describe
from gpugoblin.capture.caller import Place
from gpugoblin.capture.expression import Expression, Value
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import CaptureError, GraphError

HERE = Place("analysis.py", 41)


def value(dtype: str, *shape: int) -> Value:
    return Value(Expression("input", (), (TensorSpec(dtype, shape),)), 0)


def test_specs_and_attributes_are_the_catalogs() -> None:
    node = apply("reduce", [value("float32", 3, 4)], HERE, function="sum", axes=(0,))
    assert node.specs == (TensorSpec("float32", (4,)),)
    assert node.attributes == {"axes": (0,), "function": "sum", "keepdims": False}
    assert node.place is HERE


def test_a_refusal_names_line_operator_shapes_cause_and_next_step() -> None:
    with pytest.raises(CaptureError) as caught:
        apply("matmul", [value("float32", 3, 4), value("float32", 3, 4)], HERE)
    text = str(caught.value)
    assert text.startswith("analysis.py:41: matmul of float32[3, 4] and float32[3, 4]: ")
    assert "inner extents" in text
    assert text.endswith("[argument_refused]")
    assert isinstance(caught.value.__cause__, GraphError)


def test_operands_are_described() -> None:
    assert describe([value("int32"), value("bool", 2, 0)]) == "int32[] and bool[2, 0]"
