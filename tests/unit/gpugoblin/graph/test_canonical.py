"""The canonical form: the same bits, once and for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.canonical import canonicalise
from gpugoblin.graph.check import check
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from tests.helpers.graphs import graphs, inputs_of


def same_bits(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Equal in dtype, shape and bits; one NaN is another."""
    if one.dtype.kind == "f":
        one, other = (np.where(np.isnan(x), np.float32(np.nan), x) for x in (one, other))
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_bit_stays_and_twice_is_once(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    found = canonicalise(graph)
    check(found)
    assert found.inputs == graph.inputs
    assert found.output_specs() == graph.output_specs()
    assert canonicalise(found) == found
    assert len(found.nodes) <= 2 * len(graph.nodes)
    inputs = data.draw(inputs_of(graph))
    try:
        expected = interpret(graph, inputs)
    except GraphError:
        with pytest.raises(GraphError, match="index_out_of_range"):
            interpret(found, inputs)
        return
    for one, other in zip(interpret(found, inputs), expected, strict=True):
        assert same_bits(one, other)


def call(builder: GraphBuilder, name: str, *values: int) -> int:
    return builder.add("formula", values, tree=call_formula(name))


def one(order: tuple[int, int], spread: bool) -> Graph:
    """(x * y) summed over the last axis, plus 2: in several ways."""
    builder = GraphBuilder()
    both = [builder.input(TensorSpec("float32", (3, 4))) for _ in range(2)]
    product = call(builder, "mul", both[order[0]], both[order[1]])
    if spread:
        product = builder.add("reshape", [product], shape=(12,))
        product = builder.add("reshape", [product], shape=(3, 4))
        summed = builder.add("reduce", [product], function="sum", axes=(1,), keepdims=True)
        summed = builder.add("reshape", [summed], shape=(3,))
        two = builder.add("broadcast", [builder.constant(np.float32(2))], shape=(3,))
        return builder.build([call(builder, "add", two, summed)])
    summed = builder.add("reduce", [product], function="sum", axes=(1,))
    tree = FormulaBuilder()
    plus = tree.build(tree.call("add", tree.input(0), tree.const("float32", 2.0)))
    return builder.build([builder.add("formula", [summed], tree=plus)])


def test_ways_to_say_one_thing_have_one_form() -> None:
    forms = {canonicalise(one(order, spread)) for order in ((0, 1), (1, 0)) for spread in (0, 1)}
    assert len(forms) == 1
    assert [node.operator for node in forms.pop().nodes] == ["formula", "reduce", "formula"]


def test_the_order_of_operands_comes_from_the_inputs_alone() -> None:
    forms = set()
    for turned in (False, True):
        builder = GraphBuilder()
        x, y = (builder.input(TensorSpec("float32", (3,))) for _ in range(2))
        a, b = call(builder, "exp", x), call(builder, "sin", y)
        if turned:
            total = call(builder, "add", call(builder, "mul", y, b), call(builder, "mul", a, x))
        else:
            total = call(builder, "add", call(builder, "mul", x, a), call(builder, "mul", b, y))
        forms.add(canonicalise(builder.build([total])))
    assert len(forms) == 1


def test_min_and_max_keep_their_order() -> None:
    builder = GraphBuilder()
    x, y = (builder.input(TensorSpec("float32", ())) for _ in range(2))
    graph = builder.build([call(builder, "max", y, x), call(builder, "max", x, y)])
    assert len(canonicalise(graph).nodes) == 2


def test_what_depends_on_constants_is_folded_within_bounds() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    line = builder.constant(np.arange(4, dtype=np.float32))
    wide = builder.add("broadcast", [builder.constant(np.float32(3))], shape=(1000, 1000))
    small = call(builder, "exp", line)
    graph = builder.build([call(builder, "add", x, small), wide])
    found = canonicalise(graph)
    assert [node.operator for node in found.nodes] == ["formula", "broadcast"]
    (result, _) = interpret(found, [np.zeros(4, np.float32)])
    np.testing.assert_array_equal(result, np.exp(np.arange(4.0)).astype(np.float32))


def test_a_malformed_graph_is_refused() -> None:
    with pytest.raises(GraphError):
        canonicalise(Graph((), (), (), ()))
