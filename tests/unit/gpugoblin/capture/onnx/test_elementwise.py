"""Handlers of this family give what the node tests of `onnx` ask for."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")

from gpugoblin.capture.onnx.elementwise import HANDLERS
from tests.helpers.onnx_nodes import check_cases

WITHOUT_CASES = {"Cast", "CastLike"}
"""Operators whose cases have other dtypes, or that are refused."""

UNLIKE = ("training_dropout", "argmax_2d", "reduction_mul", "multiply", "gqa_rank4")


@pytest.mark.parametrize("operator", sorted(HANDLERS))
def test_node_tests(operator: str) -> None:
    ran = check_cases([operator], UNLIKE)
    assert ran or operator in WITHOUT_CASES
