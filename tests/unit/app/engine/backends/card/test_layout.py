from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.layout import lay_out, require_served
from app.engine.backends.card.stages import Stage
from app.engine.backends.card.steps import ALIGNMENT_BYTES
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from tests.helpers.card_graphs import graph_of


def test_tensors_lie_apart_within_the_block() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (5, 7)))
    y = builder.constant(np.ones((5, 7), np.float32))
    turned = builder.add("flip", [x], axes=(0,))
    graph = builder.build([builder.add("formula", [turned, y], tree=call_formula("add"))])
    layout = lay_out(require_served(graph), lambda node, specs: None)
    places = [*layout.inputs, *layout.outputs, *(place for place, _ in layout.constants)]
    assert all(place % ALIGNMENT_BYTES == 0 for place in places)
    assert len(set(places)) == 3
    for step in layout.steps:
        for stage, bound in step.stages:
            assert len(bound) == len(stage.tensors)
            assert all(start + length <= layout.size_bytes for start, length in bound)


def test_what_a_card_chooses_takes_the_place_of_a_kernel() -> None:
    left, right = np.zeros((4, 6), np.float32), np.zeros((6, 5), np.float32)
    mine = Stage(b"", (0, 0, 0), (0, 1, 2), call="mine")
    layout = lay_out(
        require_served(graph_of("matmul", [left, right])),
        lambda node, specs: Emission((mine,)) if node.operator == "matmul" else None,
    )
    ((stage, bound),) = layout.steps[0].stages
    assert stage is mine
    assert [start for start, _ in bound] == [*layout.inputs, *layout.outputs]


def test_what_is_not_served_is_refused() -> None:
    matrix = np.eye(3, dtype=np.float32)
    with pytest.raises(EngineError) as raised:
        require_served(graph_of("cholesky", [matrix]))
    assert raised.value.code == "task_refused"
