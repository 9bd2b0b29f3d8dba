from __future__ import annotations

import numpy as np

from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.plain import evaluate_plain


def test_every_operation_rounds_once_in_float32() -> None:
    builder = FormulaBuilder()
    x, y, z = (builder.input(place) for place in range(3))
    tree = builder.build(builder.call("add", builder.call("mul", x, y), z))
    a = np.array([1 + 2**-12, 1 + 2**-23], np.float32)
    separate = (a * a).astype(np.float32) + np.float32(-1)
    found = evaluate_plain(tree, [a, a, np.array(-1, np.float32)])
    np.testing.assert_array_equal(found, separate)
    fused = (a.astype(np.float64) ** 2 - 1).astype(np.float32)
    assert (found != fused).any()


def test_integers_casts_and_constants() -> None:
    builder = FormulaBuilder()
    shifted = builder.call("shl", builder.input(0), builder.const("int32", 30))
    tree = builder.build(builder.cast(shifted, "int64"))
    found = evaluate_plain(tree, [np.array([1, 2, 3], np.int32)])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [2**30, -(2**31), -(2**30)])
