from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog import registry
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import ALIGNMENT_BYTES, align, bound, lives, plan_memory
from tests.helpers.graphs import graphs, inputs_of


def chain(length: int, *shape: int) -> Graph:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", shape))
    for _ in range(length):
        value = builder.add("formula", [value], tree=call_formula("exp"))
    return builder.build([value])


def run_in_arena(
    graph: Graph, inputs: list[Array], page_bytes: int = 0, start: int = 0
) -> list[Array]:
    """Runs a graph with every intermediate at its planned place, the arena poisoned before."""
    plan = plan_memory(graph, page_bytes, start)
    specs = graph.specs()
    arena = np.full(plan.arena_bytes, 0xA5, np.uint8)
    outputs = [np.zeros(align(spec.nbytes) + 1, np.uint8) for spec in graph.output_specs()]
    known = [*inputs, *(constant.array() for constant in graph.constants)]

    def place(value: int) -> Array:
        base, spec = plan.bases[value], specs[value]
        if base < len(known):
            return known[base].reshape(spec.shape)
        home = plan.homes.get(base)
        room = arena[plan.offsets[value] :] if home is None else outputs[home]
        return room[: spec.nbytes].view(DTYPES[spec.dtype]).reshape(spec.shape)

    for first, node in graph.numbered_nodes():
        if plan.bases[first] != first:
            continue
        operands = [place(value) for value in node.inputs]
        results = registry.get(node.operator, node.version).reference(operands, node.attrs)
        for output, result in enumerate(results):
            place(first + output)[...] = result
    for output, value in plan.copies:
        raw = np.ascontiguousarray(place(value)).reshape(-1).view(np.uint8)
        outputs[output][: raw.size] = raw
    return [
        room[: spec.nbytes].view(DTYPES[spec.dtype]).reshape(spec.shape)
        for room, spec in zip(outputs, graph.output_specs(), strict=True)
    ]


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_graph_runs_in_its_planned_places(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_nodes=10))
    inputs = data.draw(inputs_of(graph))
    expected = interpret(graph, inputs)
    for result, reference in zip(run_in_arena(graph, inputs), expected, strict=True):
        np.testing.assert_array_equal(result, reference)


@settings(max_examples=120, deadline=None)
@given(graph=graphs(max_nodes=12))
def test_no_two_live_values_overlap(graph: Graph) -> None:
    plan = plan_memory(graph)
    found = lives(graph)
    assert {plan.bases[value] for value in plan.offsets} == {life.value for life in found}
    for number, one in enumerate(found):
        start = plan.offsets[one.value]
        assert start % ALIGNMENT_BYTES == 0
        assert start + one.size_bytes <= plan.arena_bytes
        for other in found[:number]:
            if one.first_step <= other.last_step and other.first_step <= one.last_step:
                begin = plan.offsets[other.value]
                apart = start + one.size_bytes <= begin or begin + other.size_bytes <= start
                assert apart or 0 in (one.size_bytes, other.size_bytes)
    alive = [
        sum(life.size_bytes for life in found if life.first_step <= step <= life.last_step)
        for step in range(len(graph.nodes))
    ]
    assert max(alive, default=0) <= plan.arena_bytes <= sum(life.size_bytes for life in found)


def test_a_chain_needs_two_places() -> None:
    graph = chain(20, 100)
    plan = plan_memory(graph)
    assert plan.arena_bytes == 2 * align(400)
    assert plan.homes == {20: 0}
    assert plan.copies == ()


def test_a_single_operator_needs_no_arena() -> None:
    assert plan_memory(chain(1, 100)).arena_bytes == 0


def test_reshapes_are_free() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4, 6)))
    flat = builder.add("reshape", [x], shape=(24,))
    power = builder.add("formula", [flat], tree=call_formula("exp"))
    back = builder.add("reshape", [power], shape=(6, 4))
    total = builder.add("reduce", [back], axes=(0,), function="sum")
    plan = plan_memory(builder.build([total]))
    assert plan.bases == (0, 0, 2, 2, 4)
    assert plan.arena_bytes == align(96)
    assert plan.offsets == {2: 0, 3: 0}


def test_outputs_that_share_storage_are_copied() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    power = builder.add("formula", [x], tree=call_formula("exp"))
    view = builder.add("reshape", [power], shape=(2, 2))
    graph = builder.build([view, power, x, power])
    plan = plan_memory(graph)
    assert plan.homes == {1: 0}
    assert plan.copies == ((1, 1), (2, 0), (3, 1))
    assert plan.arena_bytes == 0


def test_bound_counts_everything_once() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (1000, 10)))
    w = builder.constant(np.ones((10, 3), np.float32))
    y = builder.add("matmul", [x, w])
    best = builder.add("reduce_arg", [y], axis=1, function="argmax")
    graph = builder.build([best])
    plan = plan_memory(graph)
    assert plan.arena_bytes == align(12_000)
    outside = align(40_000) + align(120) + align(8_000)
    assert bound(graph) == outside + plan.arena_bytes + plan.scratch_bytes


def test_empty_values_take_nothing() -> None:
    assert bound(chain(5, 0, 7)) == 0


@pytest.mark.parametrize("nodes", [500])
def test_a_large_random_graph_stays_near_its_live_set(nodes: int) -> None:
    generator = np.random.default_rng(3)
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", (size,))) for size in (100, 1000, 5000)]
    for _ in range(nodes):
        recent = values[-int(generator.integers(1, 20)) % len(values)]
        shape = builder.spec(recent).shape
        size = int(generator.choice([64, 100, 900, 1000, 5000]))
        grown = builder.add("broadcast", [recent], shape=(1, *shape))
        total = builder.add("reduce", [grown], axes=(0, 1), function="sum", keepdims=True)
        values.append(
            builder.add("broadcast", [builder.add("reshape", [total], shape=(1,))], shape=(size,))
        )
    joined = builder.add("concat", values[3:43], axis=0)
    graph = builder.build([joined])
    found = lives(graph)
    alive = max(
        sum(life.size_bytes for life in found if life.first_step <= step <= life.last_step)
        for step in range(len(graph.nodes))
    )
    assert plan_memory(graph).arena_bytes <= 1.05 * alive


@settings(max_examples=60, deadline=None)
@given(data=st.data(), start=st.integers(0, 40).map(lambda count: count * 64))
def test_with_pages_nothing_lies_across_two(data: st.DataObject, start: int) -> None:
    graph = data.draw(graphs())
    inputs = data.draw(inputs_of(graph))
    specs = graph.specs()
    page_bytes = max((align(spec.nbytes) for spec in specs), default=0) or 64
    plan = plan_memory(graph, page_bytes, start)
    for value, offset in plan.offsets.items():
        size_bytes = align(specs[value].nbytes)
        if size_bytes:
            first, last = start + offset, start + offset + size_bytes - 1
            assert first // page_bytes == last // page_bytes
    for found, wanted in zip(
        run_in_arena(graph, inputs, page_bytes, start), interpret(graph, inputs), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
