"""Plans of products: they cover the result, fit the limits, and compute the product."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.spec import ArrayRegion, Limits, Plan
from gpugoblin.plan.tiles import plan_product
from gpugoblin.units import MIB
from gpugoblin.verify.forms import product_form


def run(plan: Plan, inputs: list[Array]) -> list[Array]:
    """Evaluates a plan task by task with the reference interpreter."""
    outputs = [np.zeros(spec.shape, DTYPES[spec.dtype]) for spec in plan.outputs]
    written = [np.zeros(spec.shape, int) for spec in plan.outputs]
    kept: dict[tuple[int, int], Array] = {}
    for index in range(plan.count):
        task = plan.task(index)
        assert task.index == index
        given_inputs = []
        for source in task.inputs:
            if isinstance(source, ArrayRegion):
                box = zip(source.region.start, source.region.stop, strict=True)
                given_inputs.append(inputs[source.array][tuple(slice(*pair) for pair in box)])
            else:
                assert source.task in task.depends_on
                assert index in plan.consumers(source.task)
                given_inputs.append(kept[source.task, source.output])
        results = interpret(task.graph, given_inputs)
        for number, (place, result) in enumerate(zip(task.outputs, results, strict=True)):
            if place.array is None:
                kept[index, number] = result
                continue
            box = zip(place.region.start, place.region.stop, strict=True)
            where = tuple(slice(*pair) for pair in box)
            outputs[place.array][where] = result
            written[place.array][where] += 1
    assert all((count == 1).all() for count in written)
    return outputs


def product(
    rows: int,
    inner: int,
    columns: int,
    *,
    batch: tuple[int, ...] = (),
    dtype: str = "int64",
    ta: bool = False,
    tb: bool = False,
    carry: bool = False,
) -> Graph:
    builder = GraphBuilder()
    a = builder.input(TensorSpec(dtype, (*batch, *((inner, rows) if ta else (rows, inner)))))
    b = builder.input(TensorSpec(dtype, (*batch, *((columns, inner) if tb else (inner, columns)))))
    c = builder.input(TensorSpec(dtype, (*batch, rows, columns))) if carry else None
    out = builder.add("matmul", [a, b], transpose_a=ta, transpose_b=tb)
    if c is not None:
        out = builder.add("formula", [out, c], tree=call_formula("add"))
    return builder.build([out])


@given(
    st.tuples(st.integers(0, 25), st.integers(0, 25), st.integers(0, 25)),
    st.sampled_from([(), (1,), (3,), (2, 3)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(400, 6000),
)
@settings(max_examples=150, deadline=None)
def test_any_plan_computes_the_product(
    extents: tuple[int, int, int],
    batch: tuple[int, ...],
    ta: bool,
    tb: bool,
    carry: bool,
    memory: int,
) -> None:
    graph = product(*extents, batch=batch, ta=ta, tb=tb, carry=carry)
    limits = Limits(memory_bytes=memory, slot_bytes=memory // 3)
    plan = plan_product(graph, limits)
    assume(plan.count <= 200)
    random = np.random.default_rng(memory)
    inputs: list[Array] = [random.integers(-99, 99, spec.shape) for spec in graph.inputs]
    np.testing.assert_array_equal(run(plan, inputs)[0], interpret(graph, inputs)[0])
    for index in range(plan.count):
        task = plan.task(index)
        specs = (*task.graph.inputs, *task.graph.output_specs())
        assert max(spec.nbytes for spec in specs) <= limits.slot_bytes
        assert bound(task.graph) == task.memory_bound_bytes <= limits.memory_bytes
        assert product_form(task.graph) is not None
        assert all(before < index for before in task.depends_on)


def big(rows: int, inner: int, columns: int) -> Graph:
    return product(rows, inner, columns, dtype="float32")


def test_prescribed_tile() -> None:
    plan = plan_product(big(16384, 16384, 16384), Limits(512 * MIB))
    summary = plan.summary()
    assert summary.tile == (1024, 4096)
    assert summary.tasks == plan.count == 64
    assert summary.flops == 2 * 16384**3
    assert summary.memory_bound_bytes <= 352 * MIB
    assert summary.verify_flops < 0.02 * summary.flops
    first, second, last = plan.task(0), plan.task(1), plan.task(63)
    assert first.verify == "product"
    assert first.affinity == second.affinity == 0
    assert last.affinity == 3
    assert first.inputs[1] == second.inputs[1]
    assert first.graph is second.graph


def test_long_inner_axis_is_cut_with_the_sum_carried() -> None:
    plan = plan_product(big(4096, 40000, 8192), Limits(512 * MIB))
    assert plan.inner.count == 3
    task = plan.task(4)
    assert task.depends_on == (0,)
    assert plan.consumers(0) == (4,)
    assert task.outputs[0].array is None
    assert plan.task(11).outputs[0].array == 0
    assert plan.consumers(11) == ()
    right = task.graph.inputs[1]
    assert right.nbytes <= 256 * MIB


def test_small_products_are_one_task() -> None:
    for shape in ((1, 1, 1), (1000, 1000, 1000), (1024, 16384, 4096)):
        assert plan_product(big(*shape), Limits(512 * MIB)).count == 1


def test_pieces_are_even() -> None:
    plan = plan_product(big(16384, 16384, 5000), Limits(512 * MIB))
    assert plan.columns.count == 2
    widths = [plan.columns.piece(at)[1] - plan.columns.piece(at)[0] for at in range(2)]
    assert max(widths) - min(widths) <= 128


def test_tiles_shrink() -> None:
    small = Limits(memory_bytes=64 * MIB, slot_bytes=16 * MIB)
    plan = plan_product(big(16384, 16384, 16384), small)
    assert plan.summary().memory_bound_bytes <= small.memory_bytes


def test_tiny_products_are_recomputed() -> None:
    assert plan_product(big(4, 4, 4), Limits(MIB)).task(0).verify == "recompute"
    assert plan_product(big(512, 512, 512), Limits(64 * MIB)).task(0).verify == "product"


def test_gram_of_one_array() -> None:
    builder = GraphBuilder()
    a = builder.input(TensorSpec("int64", (30, 7)))
    graph = builder.build([builder.add("matmul", [a, a], transpose_b=True)])
    plan = plan_product(graph, Limits(2000, slot_bytes=800))
    assert plan.count > 1
    x: Array = np.random.default_rng(0).integers(-9, 9, (30, 7))
    np.testing.assert_array_equal(run(plan, [x])[0], x @ x.T)


def test_a_million_tasks_cost_nothing() -> None:
    plan = plan_product(big(2**20, 2**20, 2**20), Limits(512 * MIB))
    assert plan.count == 1024 * 256 * 64
    task = plan.task(plan.count - 1)
    assert task.outputs[0].region.stop == (2**20, 2**20)


def test_refusals() -> None:
    with pytest.raises(PlanError) as caught:
        plan_product(big(4, 4, 4), Limits(8))
    assert caught.value.code == "plan_does_not_fit"
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (3,)))
    with pytest.raises(PlanError) as caught:
        plan_product(builder.build([value]), Limits(MIB))
    assert caught.value.code == "plan_not_a_product"
    plan = plan_product(big(4, 4, 4), Limits(MIB))
    for index in (-1, 1):
        with pytest.raises(PlanError) as caught:
            plan.task(index)
        assert caught.value.code == "plan_task_unknown"
        with pytest.raises(PlanError):
            plan.consumers(index)
