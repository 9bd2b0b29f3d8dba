from __future__ import annotations

import numpy as np

from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import DTYPES, TensorSpec


def test_tensor_specs() -> None:
    spec = TensorSpec("int64", (2, 0, 5))
    assert (spec.rank, spec.count, spec.nbytes, str(spec)) == (3, 0, 0, "int64[2, 0, 5]")
    scalar = TensorSpec("bool", ())
    assert (scalar.rank, scalar.count, scalar.nbytes) == (0, 1, 1)


def test_dtypes_are_little_endian() -> None:
    assert {name: dtype.itemsize for name, dtype in DTYPES.items()} == {
        "float32": 4,
        "int32": 4,
        "int64": 8,
        "bool": 1,
        "int8": 1,
        "int16": 2,
        "uint8": 1,
        "float16": 2,
        "bfloat16": 2,
        "float64": 8,
    }
    assert all(dtype == dtype.newbyteorder("<") for dtype in DTYPES.values())
    assert np.dtype(np.float32) == DTYPES["float32"]


def test_keys_of_operators() -> None:
    assert all(operator.key == key for key, operator in OPERATORS.items())
