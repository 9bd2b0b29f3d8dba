from __future__ import annotations

import numpy as np

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.optim.terms import Term, formula, minimum, where


def test_the_notation() -> None:
    builder = GraphBuilder()
    inputs = [builder.input(TensorSpec("float32", (3,))), builder.input(TensorSpec("int64", ()))]

    def write(x: Term, n: Term) -> Term:
        steps = n.cast("float32")
        below = where(x < 2.0, x * 2 + 1, 6 / x)
        return where(x <= 1.0, 1 - below, -minimum(below - steps, 3.0) * steps)

    made = builder.build([formula(builder, inputs, write)])
    (found,) = interpret(made, [np.array([1, 1.5, 3], np.float32), np.array(2)])
    assert found.tolist() == [-2.0, -4.0, 0.0]


def test_a_cast_to_the_same_dtype_is_none() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", ()))
    made = builder.build([formula(builder, [value], lambda x: x.cast("float32") + 1.0 - 1.0 * x)])
    assert "cast" not in str(made.nodes[0].attributes)
