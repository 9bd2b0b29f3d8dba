"""The values of the derivatives are checked in `tests/conformance/test_gradients.py`."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.scalar_grads import GRADIENTS
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret


def test_every_rule_is_of_a_function() -> None:
    assert set(GRADIENTS) <= set(SCALARS)


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("abs", [0.0], [0.0]),
        ("max", [2.0, 2.0], [0.5, 0.5]),
        ("min", [2.0, 2.0], [0.5, 0.5]),
        ("max", [1.0, 2.0], [0.0, 1.0]),
        ("min", [1.0, 2.0], [1.0, 0.0]),
        ("max", [np.nan, 2.0], [1.0, 1.0]),
        ("pow", [0.0, 0.0], [0.0, 0.0]),
        ("pow", [0.0, 2.0], [0.0, 0.0]),
        ("pow", [-2.0, 3.0], [12.0, np.nan]),
        ("sqrt", [0.0], [np.inf]),
        ("floor", [1.5], [0.0]),
        ("sign", [0.0], [0.0]),
    ],
)
def test_where_there_is_no_derivative(
    name: str, operands: list[float], expected: list[float]
) -> None:
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", ())) for _ in operands]
    graph = builder.build([builder.add("formula", values, tree=call_formula(name))])
    joint = gradient(graph, range(len(operands)))
    results = interpret(joint, [np.array(x, np.float32) for x in operands])[1:]
    np.testing.assert_array_equal([result.item() for result in results], expected)
