from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.bodies import (
    body_attribute,
    body_builder,
    body_cost,
    floats,
    replay,
    require_specs,
    traced,
)
from gpugoblin.catalog.body_samples import one_formula
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
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
