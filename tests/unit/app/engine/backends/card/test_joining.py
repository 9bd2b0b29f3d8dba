from __future__ import annotations

import numpy as np

from app.engine.backends.card.joining import joined_groups, kept_of
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.prove import specs_of
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import plan_memory
from tests.helpers.card_graphs import graph_of


def softmax() -> Graph:
    rows = np.zeros((5, 40), np.float32)
    return expand(graph_of("softmax", [rows], axis=1)).graph


def test_reductions_join_the_formulas_around_them() -> None:
    graph = softmax()
    (group,) = joined_groups(graph, plan_memory(graph).offsets)
    assert group.nodes == list(range(len(graph.nodes)))
    assert 0 in group.reads


def test_what_a_group_reads_is_not_written_by_another_row() -> None:
    """The mean of rows lies where what was read by every row lay."""
    data, factor = np.zeros((5, 40), np.float32), np.zeros((5, 1), np.float32)
    builder = GraphBuilder()
    x, y = (builder.input(spec) for spec in specs_of([data, factor]))
    scaled = builder.add("formula", [x, y], tree=call_formula("mul"))
    graph = builder.build(
        [builder.add("reduce", [scaled], axes=(1,), function="mean", keepdims=True)]
    )
    assert len(joined_groups(graph, {})) == 1
    assert len(joined_groups(graph, {1: 0, 3: 0})) == 2
    assert len(joined_groups(graph, {1: 0, 3: 64})) == 1


def test_results_that_others_read_are_kept() -> None:
    graph = softmax()
    last = len(graph.specs()) - 1
    assert kept_of(graph, range(len(graph.nodes)), range(len(graph.specs()))) == [last]


def test_other_nodes_stay_alone() -> None:
    graph = graph_of("permute", [np.zeros((2, 3), np.float32)], axes=(1, 0))
    assert [group.chain for group in joined_groups(graph, {})] == [False]
