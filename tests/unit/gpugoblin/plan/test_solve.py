"""What is computed in the tile, and what by stages of its own."""

from __future__ import annotations

import pytest

from gpugoblin.errors import PlanError
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.rewrite import expand_means
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.grouping import group_cut
from gpugoblin.plan.solve import Solution, hold, solve
from gpugoblin.plan.spec import Limits
from gpugoblin.units import MIB
from tests.helpers.programs import chain, neighbors, reduction, softmax, variance


def solution(graph: Graph, limits: Limits) -> Solution:
    flow = Flow.of(expand_means(graph))
    group = list(range(len(graph.outputs)))
    return solve(flow, group_cut(flow, group), {}, 0, limits)


@pytest.mark.parametrize("graph", [chain(5000, 5000), softmax(1, 5000, 5000)])
def test_what_stays_in_the_tile_is_one_stage(graph: Graph) -> None:
    found = solution(graph, Limits(256 * MIB))
    assert len(found.stages) == 1
    assert found.good
    assert found.count == found.stages[0].stage.count > 1


def test_a_small_value_is_computed_again_rather_than_sent() -> None:
    found = solution(neighbors(1797, 64, 6), Limits(256 * MIB))
    assert len(found.stages) == 1


def test_a_long_sum_becomes_a_tree() -> None:
    found = solution(reduction("sum", (0,), 500_000_000), Limits(256 * MIB))
    assert [one.stage.count for one in found.stages][-1] == 1
    assert found.stages[0].stage.count > 10


def test_a_sum_that_needs_another_comes_after_it() -> None:
    found = solution(variance((0, 1), 20_000, 20_000), Limits(256 * MIB))
    operators = [{node.operator for node in one.stage.task(0).graph.nodes} for one in found.stages]
    assert operators[0] == {"reduce"}
    assert sum("reduce" in some for some in operators) == 2
    assert found.burden > found.work > 0


def test_a_held_value_that_does_not_fit_is_none() -> None:
    flow = Flow.of(softmax(1, 10, 100_000))
    top = len(flow.graph.inputs)
    assert hold(flow, top, {}, 0, Limits(100), 1) is None
    found = hold(flow, top, {}, 0, Limits(100_000), 1)
    assert found is not None
    assert found.held[top].layers == 1


def test_the_error_names_operator_shape_and_figures() -> None:
    with pytest.raises(PlanError) as caught:
        solution(neighbors(1_000_000, 4, 3), Limits(MIB))
    assert caught.value.code == "plan_not_splittable"
    assert caught.value.fields["operator"] == "topk"
    assert caught.value.fields["output"] == "float32[1000000, 3]"
    assert caught.value.fields["limit_bytes"] == MIB
    assert int(str(caught.value.fields["needed_bytes"])) > 8_000_000


def test_the_slot_is_a_limit_too() -> None:
    with pytest.raises(PlanError) as caught:
        solution(chain(4), Limits(MIB, slot_bytes=3))
    assert caught.value.code == "plan_does_not_fit"
    assert caught.value.fields["limit_bytes"] == 3
