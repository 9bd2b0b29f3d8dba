"""Every element type of ONNX has its name here."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from gpugoblin.capture.onnx.types import NAMES  # noqa: E402


def test_names_are_those_of_onnx() -> None:
    for number, name in NAMES.items():
        if number not in (8, 11, 14, 15):
            word = onnx.TensorProto.DataType.Name(number).lower()
            assert word in (name, name.replace("32", "") if name == "float32" else name)
