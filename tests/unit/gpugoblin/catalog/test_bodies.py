from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpugoblin.catalog.bodies import (
    body_attribute,
    body_builder,
    body_cost,
    floats,
    program_of,
    replay,
    require_specs,
    traced,
)
from gpugoblin.catalog.body_samples import one_formula
from gpugoblin.catalog.building import call
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Builder, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import check
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.memory import bound

SPEC = TensorSpec("float32", (3, 4))


def program() -> Graph:
    builder = GraphBuilder()
    x = builder.input(SPEC)
    scale = builder.constant(np.arange(4, dtype=np.float32))
    scaled = builder.add(
        "formula", [x, scale], tree=one_formula((SPEC,) * 2, "mul", (0, 1)).nodes[0].attrs["tree"]
    )
    return builder.build([builder.add("softmax", [scaled], axis=1), x])


def test_a_trace_and_a_replay_are_the_program() -> None:
    graph = program()
    array = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    found = traced(graph)
    assert all(step.operator.decompose is None for step in found.steps)
    values = found.evaluate([array])
    for value, expected in zip(found.outputs, interpret(graph, [array]), strict=True):
        np.testing.assert_allclose(values[value], expected, rtol=1e-6)
    builder = GraphBuilder()
    assert builder.build(replay(graph, builder, [builder.input(SPEC)])) == graph


def test_scratch_has_room_for_a_whole_run() -> None:
    assert body_cost(program()).scratch_bytes >= bound(program())
    assert body_cost(program()).flops > 0


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(GraphError, match=r"float32\[3, 4\]"):
        require_specs("scan", "body", [], [SPEC])
    require_specs("scan", "body", [SPEC], [SPEC])
    with pytest.raises(TypeError, match="graph"):
        body_attribute({"body": 3}, "body")
    assert floats([SPEC, TensorSpec("bool", ()), SPEC]) == [0, 2]


def test_only_a_graph_builder_makes_bodies() -> None:
    builder = GraphBuilder()
    assert body_builder(builder) is builder
    with pytest.raises(TypeError, match="decomposition"):
        body_builder(traced(program()))


def test_a_body_of_primitives_is_read_off_a_trace() -> None:
    graph = program()
    made = program_of(graph.inputs, lambda builder, values: _written(graph, builder, values))
    check(made)
    array = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    for one, two in zip(interpret(made, [array]), interpret(graph, [array]), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def _written(graph: Graph, builder: Builder, values: Sequence[int]) -> tuple[int, ...]:
    """The graph in primitives, with a constant between its nodes."""
    x = values[0]
    known = [x, builder.constant(graph.constants[0].array())]
    for node in graph.nodes:
        operator = get(node.operator)
        operands = [known[value] for value in node.inputs]
        if operator.decompose is None:
            known.extend(builder.add_many(node.operator, operands, **node.attrs))
        else:
            known.extend(operator.decompose(builder, operands, node.attrs))
    one = builder.constant(np.array(1, np.float32))
    return known[-1], call(builder, "mul", x, one)
