"""A derivative that the program brings along: it, and no other, is the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.body_samples import apply_formula, body, one_formula
from gpugoblin.catalog.composites.custom import stopping
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import check
from gpugoblin.graph.expand import expand
from gpugoblin.graph.grad import gradient, located
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph

SPEC = TensorSpec("float32", (3,))
X = np.array([0.2, 1.7, -2.4], np.float32)
SEED = np.array([1.0, 10.0, 100.0], np.float32)
STRAIGHT = body((SPEC,) * 3, (), (2,))
FLAGS = body((SPEC,) * 3, (apply_formula("lt", (0, 1), TensorSpec("bool", (3,))),), (3,))


def rounded(backward: Graph) -> Graph:
    """round(x), 3 x: the first with a derivative of its own."""
    builder = GraphBuilder()
    x = builder.input(SPEC)
    made = builder.add("formula", [x], tree=call_formula("round"))
    attributes: dict[str, Any] = {"backward": backward, "operands": 1, "results": 1}
    return builder.build([builder.add("custom_gradient", [made, x], **attributes)])


def test_values_are_those_of_the_program_and_the_gradient_is_its_own() -> None:
    graph = gradient(rounded(STRAIGHT), [0], seeded=True)
    value, slope = interpret(graph, [X, SEED])
    np.testing.assert_array_equal(value, np.round(X))
    np.testing.assert_array_equal(slope, SEED)


def test_the_second_derivative_is_that_of_the_backward() -> None:
    # y = round(x), backward: seed * x, so the second is the seed.
    first = gradient(rounded(one_formula((SPEC,) * 3, "mul", (1, 2))), [0], seeded=True)
    second = gradient(first, [0], of=[1], seeded=True)
    *_, slope = interpret(second, [X, SEED, np.ones(3, np.float32)])
    np.testing.assert_array_equal(slope, SEED)


def test_it_costs_nothing_where_no_gradient_is_asked_for() -> None:
    graph = expand(rounded(STRAIGHT)).graph
    check(graph)
    assert [node.operator for node in graph.nodes] == ["formula"]


def test_a_result_may_be_the_input_itself() -> None:
    builder = GraphBuilder()
    x = builder.input(SPEC)
    attributes: dict[str, Any] = {
        "backward": one_formula((SPEC,) * 3, "neg", (2,)), "operands": 1, "results": 1,
    }  # fmt: skip
    graph = builder.build([builder.add("custom_gradient", [x, x], **attributes)])
    value, slope = interpret(gradient(graph, [0], seeded=True), [X, SEED])
    np.testing.assert_array_equal(value, X)
    np.testing.assert_array_equal(slope, -SEED)


def test_nothing_goes_back_through_what_is_stopped() -> None:
    """Of float64, too: x stopped(x)."""
    spec = TensorSpec("float64", (3,))
    builder = GraphBuilder()
    x = builder.input(spec)
    stopped = builder.add("custom_gradient", [x], **stopping(spec))
    graph = builder.build([builder.add("formula", [x, stopped], tree=call_formula("mul"))])
    check(graph)
    wide = X.astype(np.float64)
    value, slope = interpret(gradient(graph, [0], seeded=True), [wide, np.ones(3)])
    np.testing.assert_array_equal(value, wide * wide)
    np.testing.assert_array_equal(slope, wide)


@pytest.mark.parametrize(
    "changes",
    [
        {"results": 0},
        {"results": 3},
        {"operands": 2},
        {"operands": -1},
        {"backward": one_formula((SPEC, SPEC), "mul", (0, 1))},
        {"backward": FLAGS},
    ],
)
def test_a_backward_that_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    given: dict[str, Any] = {"backward": STRAIGHT, "operands": 1, "results": 1, **changes}
    with pytest.raises(GraphError, match="attribute_invalid"):
        get("custom_gradient").infer([SPEC, SPEC], given)


def test_integers_have_no_derivative_of_their_own() -> None:
    whole = TensorSpec("int32", (3,))
    given: dict[str, Any] = {"backward": body((whole,) * 3, (), (2,)), "operands": 1, "results": 1}
    with pytest.raises(GraphError, match="dtype_unsupported"):
        get("custom_gradient").infer([whole, whole], given)


def test_what_cannot_be_said_has_no_gradient_and_the_line_is_named() -> None:
    builder = GraphBuilder()
    x = builder.input(SPEC)
    value = builder.add("no_gradient", [builder.add("formula", [x], tree=call_formula("neg"))])
    graph = builder.build([value])
    np.testing.assert_array_equal(interpret(graph, [X])[0], -X)
    with pytest.raises(GraphError, match="not_differentiable") as raised:
        gradient(graph, [0], seeded=True)
    error = located(raised.value, {2: "model.py:7"})
    assert "no_gradient@1 of model.py:7 has no gradient" in str(error)
    assert located(raised.value, {1: "model.py:6"}) is raised.value
