from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import LIMITS, GraphLimits, check
from gpugoblin.graph.ir import Constant, Graph, Node
from tests.helpers.graphs import graphs

MATRIX = TensorSpec("float32", (2, 3))


def good() -> Graph:
    builder = GraphBuilder()
    x = builder.input(MATRIX)
    bias = builder.constant(np.ones(3, np.float32))
    total = builder.add("formula", [x, bias], tree=call_formula("add"))
    turned = builder.add("permute", [total], axes=(1, 0))
    return builder.build([builder.add("matmul", [turned, total])])


def node(place: int, **changes: Any) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        nodes = list(graph.nodes)
        nodes[place] = replace(nodes[place], **changes)
        return replace(graph, nodes=tuple(nodes))

    return change


def whole(**changes: Any) -> Callable[[Graph], Graph]:
    return lambda graph: replace(graph, **changes)


DEEP = Formula(tuple([FormulaNode("input")] + [FormulaNode("neg", (i,)) for i in range(256)]))
HUGE = TensorSpec("float32", (2**40, 2))

BROKEN: dict[str, tuple[Callable[[Graph], Graph], str]] = {
    "outputs are a list": (whole(outputs=[4]), "graph_malformed"),
    "no outputs": (whole(outputs=()), "graph_malformed"),
    "output unknown": (whole(outputs=(5,)), "graph_malformed"),
    "output negative": (whole(outputs=(-1,)), "graph_malformed"),
    "output is a bool": (whole(outputs=(True,)), "graph_malformed"),
    "dead node": (whole(outputs=(3,)), "graph_malformed"),
    "dead constant": (
        lambda g: replace(
            good_without_bias(), constants=g.constants, outputs=(2,), nodes=permute_only()
        ),
        "graph_malformed",
    ),
    "input dtype": (whole(inputs=(TensorSpec("float8", (2, 3)),)), "graph_malformed"),
    "input extent": (whole(inputs=(TensorSpec("float32", (-2, 3)),)), "graph_malformed"),
    "input shape type": (whole(inputs=(TensorSpec("float32", [2, 3]),)), "graph_malformed"),  # type: ignore[arg-type]
    "input is text": (whole(inputs=("float32",)), "graph_malformed"),
    "input too large": (whole(inputs=(HUGE,)), "over_limit"),
    "large and empty": (whole(inputs=(TensorSpec("float32", (0, 2**41)),)), "over_limit"),
    "rank 9": (whole(inputs=(TensorSpec("float32", (1,) * 9),)), "over_limit"),
    "constant is short": (
        whole(constants=(Constant(TensorSpec("float32", (3,)), b"1234"),)),
        "graph_malformed",
    ),
    "constant is a bytearray": (
        whole(constants=(Constant(TensorSpec("float32", (3,)), bytearray(12)),)),  # type: ignore[arg-type]
        "graph_malformed",
    ),
    "constant is not a bool": (
        whole(constants=(Constant(TensorSpec("bool", (3,)), b"\0\1\2"),)),
        "graph_malformed",
    ),
    "constant over 1 MiB": (
        whole(constants=(Constant(TensorSpec("float32", (262145,)), b""),)),
        "over_limit",
    ),
    "operator unknown": (node(1, operator="transpose"), "unknown_operator"),
    "version unknown": (node(1, version=7), "unknown_operator"),
    "version is text": (node(1, version="1"), "graph_malformed"),
    "arity": (node(1, inputs=(2, 2)), "arity_wrong"),
    "reads itself": (node(1, inputs=(3,)), "graph_malformed"),
    "reads a later value": (node(0, inputs=(0, 4)), "graph_malformed"),
    "wrong shape": (node(1, outputs=(MATRIX,)), "graph_malformed"),
    "wrong dtype": (node(1, outputs=(TensorSpec("int32", (3, 2)),)), "graph_malformed"),
    "missing attribute": (node(1, attributes=()), "graph_malformed"),
    "unsorted attributes": (
        node(2, attributes=(("transpose_b", False), ("transpose_a", False))),
        "graph_malformed",
    ),
    "attribute of a wrong type": (node(1, attributes=(("axes", [1, 0]),)), "attribute_invalid"),
    "attribute is a bool": (node(1, attributes=(("axes", (True, False)),)), "attribute_invalid"),
    "attribute out of range": (node(1, attributes=(("axes", (1, 1)),)), "attribute_invalid"),
    "attribute too large": (node(1, attributes=(("axes", (2**63, 0)),)), "attribute_invalid"),
    "formula too large": (node(0, inputs=(0,), attributes=(("tree", DEEP),)), "over_limit"),
    "formula empty": (node(0, attributes=(("tree", Formula(())),)), "formula_malformed"),
    "node is a tuple": (whole(nodes=((),)), "graph_malformed"),
}


def good_without_bias() -> Graph:
    return Graph((MATRIX,), (), (), (0,))


def permute_only() -> tuple[Node, ...]:
    return (Node("permute", 1, (("axes", (1, 0)),), (0,), (TensorSpec("float32", (3, 2)),)),)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs_are_refused(name: str) -> None:
    change, code = BROKEN[name]
    broken = change(good())
    with pytest.raises(GraphError) as raised:
        check(broken)
    assert raised.value.code == code


def test_a_good_graph_passes() -> None:
    check(good())


@settings(max_examples=50, deadline=None)
@given(graph=graphs())
def test_what_the_builder_makes_passes(graph: Graph) -> None:
    check(graph)


@pytest.mark.parametrize("name", ["inputs", "constants", "nodes", "outputs", "node_inputs", "rank"])
def test_every_count_has_a_limit(name: str) -> None:
    with pytest.raises(GraphError, match="over_limit"):
        check(good(), GraphLimits(**{name: 0}))


@pytest.mark.parametrize("name", ["tensor_elements", "constant_bytes", "constants_bytes"])
def test_every_size_has_a_limit(name: str) -> None:
    with pytest.raises(GraphError, match="over_limit"):
        check(good(), GraphLimits(**{name: 2}))


def test_the_limits_of_the_house() -> None:
    assert (LIMITS.rank, LIMITS.constant_bytes) == (8, 2**20)


def test_a_broken_body_is_refused_before_anything_reads_it() -> None:
    spec = TensorSpec("float32", (2,))
    broken = Graph((spec,), (), (), (7,))
    builder = GraphBuilder()
    with pytest.raises(GraphError, match="graph_malformed"):
        builder.add("scan", [builder.input(spec)], body=broken, carries=1, length=1)
    with pytest.raises(GraphError, match="attribute_invalid"):
        builder.add("scan", [builder.input(spec)], body=3, carries=1, length=1)
