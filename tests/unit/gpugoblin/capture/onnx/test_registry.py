"""The table of handlers is that of the families, and knows ONNX's own names."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from gpugoblin.capture.onnx import elementwise, layers, reductions, shapes  # noqa: E402
from gpugoblin.capture.onnx.registry import HANDLERS, UNSAID  # noqa: E402

FAMILIES = (elementwise, layers, reductions, shapes)


def test_no_operator_has_two_handlers() -> None:
    assert len(HANDLERS) == sum(len(family.HANDLERS) for family in FAMILIES)
    assert set(HANDLERS) > UNSAID


def test_every_operator_is_one_of_onnx() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert set(HANDLERS) - known == set()
