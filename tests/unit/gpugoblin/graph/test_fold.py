"""Constant folding keeps to its bounds."""

from __future__ import annotations

import numpy as np

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import AttrValue, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.fold import MAX_GROWTH_BYTES, fold
from gpugoblin.graph.ir import Constant


def folded(builder: GraphBuilder, operator: str, *values: int, **given: AttrValue) -> bool:
    return fold(builder, operator, None, values, given) is not None


def test_what_is_folded() -> None:
    builder = GraphBuilder()
    line = builder.constant(np.arange(6, dtype=np.float32))
    (found,) = fold(builder, "formula", None, (line,), {"tree": call_formula("sqrt")}) or ()
    source = builder.source(found)
    assert isinstance(source, Constant)
    np.testing.assert_array_equal(source.array(), np.sqrt(np.arange(6.0)).astype(np.float32))
    assert folded(builder, "reshape", line, shape=(2, 3))


def test_what_is_not() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3,)))
    wide = MAX_GROWTH_BYTES // 4
    line = builder.constant(np.arange(wide, dtype=np.float32).reshape(wide, 1))
    key = builder.constant(np.zeros(2, np.int64))
    outside = builder.constant(np.array([wide]))
    assert not folded(builder, "formula", x, tree=call_formula("sqrt"))
    assert not folded(builder, "matmul", line, line, transpose_a=False, transpose_b=True)
    assert not folded(builder, "broadcast", line, shape=(wide, 2))
    assert not folded(builder, "random", key, function="uniform", shape=(3,))
    assert not folded(builder, "iota", count=3, dtype="int64")
    assert not folded(builder, "gather", line, outside, axis=0)
