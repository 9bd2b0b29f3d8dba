"""Plans of whole graphs: computed task by task they give what the unsplit graph gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.blockwise import plan_along, plan_blocks
from gpugoblin.plan.spec import ArrayRegion, Limits, Plan
from gpugoblin.units import GIB, MIB
from tests.helpers.graphs import graphs, inputs_of
from tests.helpers.plans import cover_of, require_equal, require_rules, run_plan, tasks_of
from tests.helpers.programs import (
    chain,
    covariance,
    elementwise,
    epilogue,
    float32,
    gram,
    layers,
    neighbors,
    reduction,
    softmax,
    variance,
)


def numbers(graph: Graph, seed: int = 0) -> list[Array]:
    random = np.random.default_rng(seed)
    made: list[Array] = []
    for spec in graph.inputs:
        if spec.dtype == "float32":
            made.append(random.standard_normal(spec.shape, dtype=np.float32))
        else:
            made.append(random.integers(0, 2, spec.shape).astype(DTYPES[spec.dtype]))
    return made


def require_plan(graph: Graph, limits: Limits, least: int = 2) -> Plan:
    """Plans, checks the rules, computes, compares."""
    plan = plan_blocks(graph, limits)
    assert plan.count >= least
    require_rules(plan, limits)
    inputs = numbers(graph)
    require_equal(graph, inputs, run_plan(plan, inputs))
    return plan


def random_graph(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    inputs = data.draw(inputs_of(graph))
    share = data.draw(st.sampled_from([0.2, 0.3, 0.45, 0.6, 0.8, 0.99, 2.0]))
    memory = max(320, int(bound(graph) * share))
    limits = Limits(memory, slot_bytes=max(64, int(memory * data.draw(st.sampled_from([0.3, 1])))))
    try:
        plan = plan_blocks(graph, limits)
    except PlanError:
        # The smallest tile needs more than that; the errors have tests of their own.
        reject()
    require_rules(plan, limits)
    require_equal(graph, inputs, run_plan(plan, inputs))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_graphs(data: st.DataObject) -> None:
    random_graph(data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=3000, deadline=None)
@given(st.data())
def test_many_random_graphs(data: st.DataObject) -> None:
    random_graph(data)


CASES = {
    "chain": (chain(300, 70), 20_000),
    "one_axis": (chain(20_000), 20_000),
    "softmax_rows": (softmax(1, 300, 70), 20_000),
    "softmax_columns": (softmax(0, 30, 700), 20_000),
    "softmax_one_row": (softmax(1, 1, 20_000), 20_000),
    "variance_columns": (variance((0,), 3000, 8), 20_000),
    "variance_rows": (variance((1,), 3000, 8), 20_000),
    "variance_all": (variance((0, 1), 300, 80), 20_000),
    "epilogue": (epilogue(90, 40, 70), 20_000),
    "gram": (gram(150, 20), 12_000),
    "layers": (layers(120, 30, 200, 20), 30_000),
    "covariance": (covariance(3000, 12), 20_000),
    "neighbors": (neighbors(150, 8, 3), 20_000),
    "sum": (reduction("sum", (0,), 40_000), 20_000),
    "max": (reduction("max", (0, 1), 200, 200), 20_000),
    "any": (reduction("any", (0,), 40_000, 2, dtype="bool"), 20_000),
    "product_of_integers": (reduction("prod", (0,), 9000, dtype="int64"), 20_000),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_programs(case: str) -> None:
    graph, memory = CASES[case]
    require_plan(graph, Limits(memory))


def test_neighbors_of_the_digits_are_cut_by_rows() -> None:
    for memory in (64 * MIB, 512 * MIB):
        plan = plan_blocks(neighbors(1797, 64, 6), Limits(memory))
        assert plan.count > 1
        for task in tasks_of(plan):
            assert all(spec.count < 1797 * 1797 for spec in task.graph.specs())
        for output in range(2):
            rows = [(one.start[0], one.stop[0]) for one in cover_of(plan, output)]
            assert [at for start, stop in rows for at in range(start, stop)] == list(range(1797))


def test_movement_of_inputs_is_a_view() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(200, 300))
    turned = builder.add("permute", [x], axes=(1, 0))
    part = builder.add("slice", [turned], start=(20, 40), stop=(280, 200), step=(1, 2))
    plan = require_plan(builder.build([part]), Limits(20_000))
    for task in tasks_of(plan):
        (source,) = task.inputs
        assert isinstance(source, ArrayRegion)
        count = task.graph.output_specs()[0].count
        assert task.graph.inputs[0].count <= 2 * count


def test_a_plain_slice_is_nothing_but_regions() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(5000, 3))
    part = builder.add("slice", [x], start=(10, 0), stop=(4010, 3), step=(1, 1))
    for task in tasks_of(require_plan(builder.build([part]), Limits(20_000))):
        assert task.graph.nodes == ()


def test_a_long_product_with_an_epilogue_is_checked_as_a_product() -> None:
    plan = plan_blocks(epilogue(8192, 8192, 8192), Limits(2 * GIB))
    found = {task.verify: task for task in map(plan.task, (0, plan.count - 1))}
    assert set(found) == {"product", "recompute"}
    assert found["product"].verify_flops * 10 < found["product"].flops
    assert plan.consumers(0)
    assert plan.summary().verify_flops * 10 < plan.summary().flops


def test_a_short_one_is_fused() -> None:
    plan = plan_blocks(epilogue(100_000, 64, 128), Limits(2 * GIB))
    assert plan.task(0).verify == "recompute"
    assert all(place.array == 0 for task in tasks_of(plan) for place in task.outputs)


def test_prepared_operands_are_read_by_products() -> None:
    plan = plan_blocks(layers(30_000, 4096, 16_384, 4096), Limits(512 * MIB))
    methods = {task.verify for task in tasks_of(plan) if task.flops > 10**9}
    assert methods == {"product"}
    require_rules(plan, Limits(512 * MIB))


def test_small_graphs_stay_whole() -> None:
    plan = plan_blocks(chain(100, 100), Limits(GIB))
    assert (plan.count, plan.summary().kind) == (1, "single")


def test_graphs_that_fit_stay_whole_where_cutting_costs_more() -> None:
    graph = variance((0, 1), 2000, 10_000)
    assert plan_blocks(graph, Limits(GIB)).count == 1
    assert plan_blocks(graph, Limits(100 * MIB)).count > 1


def test_equal_tiles_share_few_graphs() -> None:
    for graph in (chain(300, 700), softmax(1, 3000, 70), neighbors(1000, 8, 3)):
        plan = plan_blocks(graph, Limits(400_000))
        assert plan.count >= 6
        assert len({id(task.graph) for task in tasks_of(plan)}) <= 4


def test_plans_are_the_same_every_time() -> None:
    for case in ("variance_all", "layers", "neighbors"):
        graph, memory = CASES[case]
        first, second = (plan_blocks(graph, Limits(memory)) for _ in range(2))
        assert tasks_of(first) == tasks_of(second)


def test_outputs_that_share_their_work_are_made_together() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(3000, 20))
    sine = elementwise(builder, "sin", x)
    total = builder.add("reduce", [sine], axes=(1,), function="sum")
    other = builder.input(float32(50))
    graph = builder.build([sine, total, elementwise(builder, "exp", other), x, sine])
    plan = require_plan(graph, Limits(40_000))
    together = [task for task in tasks_of(plan) if {p.array for p in task.outputs} >= {0, 1, 4}]
    assert together


def test_inputs_and_constants_may_be_outputs() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(4000))
    constant = builder.constant(np.arange(4000, dtype=np.int32))
    require_plan(builder.build([x, constant, x]), Limits(6000))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 5), (5, 0)])
def test_empty_arrays_and_scalars(shape: tuple[int, ...]) -> None:
    graph = chain(*shape)
    require_plan(graph, Limits(MIB), least=1)
    if 0 in shape:
        axes = tuple(range(len(shape)))
        require_plan(reduction("sum", axes, *shape), Limits(MIB), least=1)


def test_an_empty_output_beside_a_large_one() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(4000, 2))
    none = builder.add("slice", [x], start=(7, 0), stop=(7, 2), step=(1, 1))
    require_plan(builder.build([none, elementwise(builder, "exp", x)]), Limits(6000))


def test_gathering_rows() -> None:
    builder = GraphBuilder()
    table = builder.input(float32(100, 40))
    indices = builder.input(TensorSpec("int64", (900,)))
    graph = builder.build([builder.add("gather", [table, indices], axis=0)])
    plan = plan_blocks(graph, Limits(30_000))
    require_rules(plan, Limits(30_000))
    random = np.random.default_rng(3)
    inputs: list[Array] = [*numbers(graph)[:1], random.integers(0, 100, 900)]
    require_equal(graph, inputs, run_plan(plan, inputs))


def test_no_plan_names_the_operator() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(100_000))
    graph = builder.build(builder.add_many("topk", [x], axis=0, k=50))
    with pytest.raises(PlanError) as caught:
        plan_blocks(graph, Limits(100_000))
    assert caught.value.code == "plan_not_splittable"
    assert caught.value.fields["operator"] == "topk"
    assert "topk" in str(caught.value)


@pytest.mark.parametrize(("graph", "axis"), [
    (chain(300, 40), 0), (chain(30, 400), 1), (softmax(1, 300, 40), 0), (softmax(0, 20, 500), 1),
])  # fmt: skip
def test_map_blocks(graph: Graph, axis: int) -> None:
    limits = Limits(20_000)
    plan = plan_along(graph, limits, axis)
    assert plan.count > 1
    require_rules(plan, limits)
    inputs = numbers(graph)
    require_equal(graph, inputs, run_plan(plan, inputs))
    other = 1 - axis
    extent = plan.outputs[0].shape[other]
    assert all((one.start[other], one.stop[other]) == (0, extent) for one in cover_of(plan, 0))
