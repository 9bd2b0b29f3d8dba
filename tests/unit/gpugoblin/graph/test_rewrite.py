from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, error_bounds
from gpugoblin.graph.rewrite import expand_means, rebuild
from tests.helpers.graphs import graphs, inputs_of


@settings(max_examples=50, deadline=None)
@given(graph=graphs())
def test_rebuilding_without_a_change_is_the_identity(graph: Graph) -> None:
    assert rebuild(graph, lambda builder, node, operands: None) == graph


def test_a_mean_becomes_a_sum_and_a_division() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4, 5, 6)))
    graph = builder.build([builder.add("reduce", [x], axes=(0, 2), function="mean")])
    expanded = expand_means(graph)
    assert [node.operator for node in expanded.nodes] == ["reduce", "formula"]
    assert expanded.nodes[0].attrs["function"] == "sum"
    assert expanded.output_specs() == graph.output_specs()


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_expanded_means_are_the_same_numbers(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    inputs = data.draw(inputs_of(graph))
    expanded = expand_means(graph)
    assert not any(node.attrs.get("function") == "mean" for node in expanded.nodes)
    exact, bounds = error_bounds(graph, inputs)
    for result, reference, bound in zip(interpret(expanded, inputs), exact, bounds, strict=True):
        assert agrees(result, reference, bound).all()


def test_means_of_scalars_and_nothing() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3, 0)))
    graph = builder.build([builder.add("reduce", [x], axes=(1,), function="mean", keepdims=True)])
    (result,) = interpret(expand_means(graph), [np.zeros((3, 0), np.float32)])
    assert result.shape == (3, 1)
    assert np.isnan(result).all()
