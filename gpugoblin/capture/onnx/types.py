"""Element types of ONNX as dtypes of the catalog. Owns that table and its refusal."""

from __future__ import annotations

from typing import Any, Final

from gpugoblin.capture.onnx.node import Call
from gpugoblin.catalog.spec import DTYPES

__all__ = ["NAMES", "catalog_name"]

NAMES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
    19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1",
}  # fmt: skip
"""TensorProto.DataType -> its name."""


def catalog_name(kind: Any, call: Call) -> str:
    """The dtype of an element type.

    Raises:
        CaptureError: `model_refused`, for one that is not computed here.
    """
    name = NAMES.get(int(kind), f"element type {kind}")
    if name not in DTYPES:
        raise call.refused(
            f"{name} is not computed here", f"Export the model with {', '.join(DTYPES)}."
        )
    return name
