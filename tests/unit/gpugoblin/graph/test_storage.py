"""Floats that are only stored, through graphs."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.casting import decoded
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import decode, encode


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_stored_floats_are_moved_and_cast(dtype: str) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 3)))
    small = builder.add("cast", [x], dtype=dtype)
    turned = builder.add("permute", [small], axes=(1, 0))
    graph = builder.build([turned, builder.add("cast", [turned], dtype="float32")])
    assert decode(encode(graph)) == graph
    values = np.array([[1 / 3, -2.0, np.inf], [1e-3, 70000.0, np.nan]], np.float32)
    kept, wide = interpret(graph, [values])
    np.testing.assert_array_equal(decoded(kept), wide)
    within = 2.0**-11 if dtype == "float16" else 2.0**-8
    expected = np.where(np.abs(values.T) > 65504, np.inf, values.T)
    expected = expected if dtype == "float16" else values.T
    np.testing.assert_allclose(wide, expected, rtol=within)


def test_a_gradient_through_storage_is_refused_not_zero() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", ()))
    back = builder.add("cast", [builder.add("cast", [x], dtype="bfloat16")], dtype="float32")
    with pytest.raises(GraphError) as caught:
        gradient(builder.build([back]), [0])
    assert caught.value.code == "not_differentiable"


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_small_integers_wrap(dtype: str) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec(dtype, (3,)))
    from gpugoblin.catalog.formula_build import call_formula

    graph = builder.build([builder.add("formula", [x, x], tree=call_formula("add"))])
    values = np.array([100, 127, 1], dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(interpret(graph, [values])[0], values + values)
