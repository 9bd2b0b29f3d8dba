from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.rows import RowShape, row_shape
from app.engine.backends.vulkan.compiling import compile_card
from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from tests.helpers.card_graphs import graph_of, require_right


def test_softmax_is_one_dispatch(machine: Machine) -> None:
    rows = np.random.default_rng(1).standard_normal((3, 2, 300)).astype(np.float32)
    rows[0, 0, 5] = np.nan
    graph = graph_of("softmax", [rows], axis=2)
    program = compile_card(graph, machine)
    assert sum(len(step.stages) for step in program.layout.steps) == 1
    require_right(machine, graph, [rows])


@pytest.mark.parametrize("shape", [(2, 33), (5, 2), (2, 3, 40)])
def test_norms_over_trailing_axes(machine: Machine, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(2)
    data = random.standard_normal(shape).astype(np.float32)
    scale, shift = (random.standard_normal(shape[1:]).astype(np.float32) for _ in range(2))
    inputs = [data, np.array(1e-3, np.float32), scale, shift]
    axes = tuple(range(1, len(shape)))
    require_right(machine, graph_of("layer_norm", inputs, axes=axes), inputs)


def test_results_of_reductions_are_kept_too(machine: Machine) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("int64", (4, 70)))
    most = builder.add("reduce", [x], axes=(1,), function="max", keepdims=True)
    moved = builder.add("formula", [x, most], tree=call_formula("sub"))
    total = builder.add("reduce", [moved], axes=(1,), function="sum", keepdims=True)
    graph = builder.build([moved, most, total])
    data = np.random.default_rng(3).integers(-99, 99, (4, 70))
    require_right(machine, graph, [data])


def test_shapes_of_rows() -> None:
    shape = RowShape((3, 4, 50), 2)
    assert (shape.rows, shape.length, shape.short) == (3, 200, (3, 1, 1))
    assert shape.threads * shape.own >= 200
    assert RowShape((1, 16384), 1).own == 16
    assert (RowShape((2, 35), 1).own, RowShape((2, 36), 1).own) == (2, 4)


@pytest.mark.parametrize("axes", [(0,), (0, 1)])
def test_what_is_no_row(axes: tuple[int, ...]) -> None:
    data = np.zeros((8, 9), np.float32)
    graph = graph_of("reduce", [data], axes=axes, function="sum", keepdims=axes == (0,))
    assert row_shape(graph.nodes, graph.specs()) is None
