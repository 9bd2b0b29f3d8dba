from __future__ import annotations

import numpy as np

from gpugoblin.catalog.primitives import PRIMITIVES
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import check
from gpugoblin.graph.expand import expand
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph


def graph() -> Graph:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3, 4)))
    labels = builder.input(TensorSpec("int32", (3,)))
    scaled = builder.add("gelu", [builder.add("permute", [x], axes=(0, 1))])
    loss = builder.add("cross_entropy", [scaled, labels], axis=1)
    return builder.build([builder.add("reduce", [loss], function="mean", axes=(0,)), scaled])


def test_only_primitives_are_left_and_the_result_is_the_same() -> None:
    whole = graph()
    found = expand(whole)
    check(found.graph)
    assert {f"{node.operator}@{node.version}" for node in found.graph.nodes} <= set(PRIMITIVES)
    assert found.graph.inputs == whole.inputs
    assert found.graph.output_specs() == whole.output_specs()
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    arrays = [x, np.array([0, 3, 1], np.int32)]
    for one, other in zip(interpret(whole, arrays), interpret(found.graph, arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_each_node_knows_where_it_comes_from() -> None:
    whole = graph()
    found = expand(whole)
    assert len(found.origins) == len(found.graph.nodes)
    assert list(found.origins) == sorted(found.origins)
    gather = [n for n, node in enumerate(found.graph.nodes) if node.operator == "gather"]
    assert [whole.nodes[found.origins[n]].operator for n in gather] == ["cross_entropy"]


def test_what_is_kept_is_left_alone() -> None:
    whole = graph()
    kept = expand(whole, lambda operator: operator.name in ("gelu", "cross_entropy"))
    assert kept.graph is whole
    assert kept.origins == (0, 1, 2, 3)
    only = expand(whole, lambda operator: operator.name == "gelu")
    assert "gelu" in {node.operator for node in only.graph.nodes}
    assert "cross_entropy" not in {node.operator for node in only.graph.nodes}


def test_a_composite_whose_output_is_its_input() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3, 0)))
    found = expand(builder.build([builder.add("softmax", [x], axis=1)]))
    assert found.graph.nodes == ()
    assert found.graph.outputs == (0,)
