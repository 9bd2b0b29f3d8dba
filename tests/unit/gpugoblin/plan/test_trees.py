"""Trees of partial results."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.blockwise import plan_blocks
from gpugoblin.plan.fit import fit
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.trees import combine_all, combine_some, cut_of_value, way_of_combining
from gpugoblin.units import MIB
from tests.helpers.plans import run_plan
from tests.helpers.programs import float32, neighbors, reduction


@pytest.mark.parametrize(
    ("function", "way"),
    [("sum", "add"), ("prod", "multiply"), ("max", "maximum"), ("min", "minimum"), ("mean", "")],
)
def test_ways(function: str, way: str) -> None:
    flow = Flow.of(reduction(function, (0,), 10, 3))
    assert way_of_combining(flow, flow.graph.outputs[0]) == way
    assert way_of_combining(flow, 0) == ""


def test_the_cut_of_a_reduction_has_its_summed_axes() -> None:
    flow = Flow.of(reduction("sum", (0, 2), 10, 3, 7))
    cut = cut_of_value(flow, flow.graph.outputs[0])
    assert cut.extents == (3, 10, 7)
    assert cut.wants[0].sums == (("i0", 1), ("i2", 2))
    assert cut_of_value(flow, flow.graph.outputs[0], sums=False).extents == (3,)


def test_all_outputs_of_a_node_are_made_together() -> None:
    flow = Flow.of(neighbors(12, 5, 3))
    cut = cut_of_value(flow, flow.graph.outputs[1])
    assert [want.value for want in cut.wants] == list(flow.graph.outputs)


def test_levels() -> None:
    flow = Flow.of(reduction("sum", (0,), 100_000, 4))
    value = flow.graph.outputs[0]
    limits = Limits(2000)
    made = fit(flow, cut_of_value(flow, value), {}, 0, limits)
    assert made.good
    held = made.stage.held(made.stage.wants[0], "add")
    assert held.layers > 100
    tree = combine_all(flow, value, held, made.stage.count, Limits(MIB), 1, (0,))
    assert tree is not None
    stages, last = tree
    assert last.layers == 1
    assert [one.stage.count for one in stages] == [-(-held.layers // 128), 1][-len(stages) :]
    assert [place.array for place in stages[-1].stage.task(0).outputs] == [0]
    assert all(place.array is None for one in stages[:-1] for place in one.stage.task(0).outputs)


def test_fewer_partial_results_at_once_where_memory_is_short() -> None:
    flow = Flow.of(reduction("sum", (0,), 640, 100))
    value = flow.graph.outputs[0]
    made = fit(flow, cut_of_value(flow, value), {}, 0, Limits(2500))
    held = made.stage.held(made.stage.wants[0], "add")
    level = combine_some(flow, value, held, 0, Limits(6000))
    assert level is not None
    assert level[0].totals.bound_bytes <= 6000
    assert 1 < held.layers / level[1].layers < 16
    assert combine_some(flow, value, held, 0, Limits(600)) is None
    assert combine_all(flow, value, held, 0, Limits(600), 1) is None


def test_a_product_is_combined_by_adding() -> None:
    builder = GraphBuilder()
    a, b = builder.input(float32(4, 50)), builder.input(float32(50, 6))
    flow = Flow.of(builder.build([builder.add("matmul", [a, b])]))
    assert way_of_combining(flow, flow.graph.outputs[0]) == "add"
    assert cut_of_value(flow, flow.graph.outputs[0]).extents == (4, 6, 50)


def factored(*shape: int) -> Graph:
    """Q R, whose R is factored further and meets Q again."""
    build = GraphBuilder()
    matrix = build.input(TensorSpec("float32", shape))
    q, r = build.add_many("qr", [matrix])
    u, s, _ = build.add_many("svd", [r])
    return build.build([build.add("matmul", [q, u]), s])


def test_outputs_of_other_shapes_have_the_loops_of_parallel_axes_alone() -> None:
    """R has neither Q's rows nor its cuts; over a batch both are cut alike."""
    flow = Flow.of(factored(5, 300, 24))
    for value in (1, 2):
        cut = cut_of_value(flow, value)
        assert [want.loops for want in cut.wants] == [(0, None, None)] * 2
        assert cut.extents == (5,)
    alone = cut_of_value(Flow.of(factored(300, 24)), 2)
    assert ([want.loops for want in alone.wants], alone.extents) == ([(None, None)] * 2, ())


def test_a_factor_that_no_engine_holds_is_named() -> None:
    with pytest.raises(PlanError) as caught:
        plan_blocks(factored(3000, 24), Limits(2**20, 1, 2**19))
    assert caught.value.code == "plan_not_splittable"
    assert "qr" in str(caught.value)


def test_factors_over_a_batch_are_those_of_the_whole() -> None:
    graph = factored(6, 200, 16)
    plan = plan_blocks(graph, Limits(2**20, 1, 2**18))
    assert plan.count > 1
    random = np.random.default_rng(5)
    inputs = [random.standard_normal((6, 200, 16)).astype(np.float32)]
    for one, other in zip(run_plan(plan, inputs), interpret(graph, inputs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
