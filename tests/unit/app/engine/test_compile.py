"""Whole graphs through the compiler: equal to the reference, within the planner's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.engine.backends.cpu.backend import CpuBackend
from app.engine.compile import compile_graph
from app.engine.context import Context, KernelError
from app.engine.pool import Pool
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.graph.memory import plan_memory
from gpugoblin.graph.numeric import agrees, error_bounds
from tests.helpers.graphs import graphs, inputs_of

Evaluate = Callable[[Graph, Sequence[Array]], list[Array]]


@pytest.fixture(scope="module")
def pools() -> Iterator[tuple[Pool, Pool]]:
    made = Pool(1), Pool(3)
    yield made
    for pool in made:
        pool.close()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_graph_is_its_reference_with_the_same_bits_on_any_number_of_threads(
    data: st.DataObject,
    pools: tuple[Pool, Pool],
    evaluate_with: Callable[[Pool], Evaluate],
) -> None:
    graph = data.draw(graphs())
    inputs = data.draw(inputs_of(graph))
    before = [array.tobytes() for array in inputs]
    exact, bounds = error_bounds(graph, inputs)
    results = [evaluate_with(pool)(graph, inputs) for pool in pools]
    for one, many in zip(*results, strict=True):
        assert one.tobytes() == many.tobytes()
    for result, reference, bound in zip(results[0], exact, bounds, strict=True):
        assert result.dtype == reference.dtype
        assert agrees(result, reference, bound).all()
    assert [array.tobytes() for array in inputs] == before


def chain_of(builder: GraphBuilder, value: int, names: Sequence[str]) -> int:
    for name in names:
        value = builder.add("formula", [value], tree=call_formula(name))
    return value


def test_a_chain_is_one_step_and_its_inner_values_have_no_home(evaluate: Evaluate) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (300, 700)))
    graph = builder.build([chain_of(builder, x, ["exp", "neg", "tanh", "abs"])])
    program = compile_graph(graph, CpuBackend())
    assert len(program.steps) == 1
    assert set(program.homes) == {0, 4}
    data = np.random.default_rng(1).standard_normal((300, 700)).astype(np.float32)
    (result,) = evaluate(graph, [data])
    np.testing.assert_array_equal(result, np.abs(np.tanh(-np.exp(data))))


def test_a_value_of_a_chain_that_others_read_is_kept(evaluate: Evaluate) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (50, 60)))
    inner = chain_of(builder, x, ["exp"])
    outer = chain_of(builder, inner, ["neg"])
    total = builder.add("reduce", [inner], axes=(0, 1), function="max")
    graph = builder.build([outer, total, inner])
    data = np.random.default_rng(2).standard_normal((50, 60)).astype(np.float32)
    results = evaluate(graph, [data])
    np.testing.assert_array_equal(results[0], -np.exp(data))
    np.testing.assert_array_equal(results[2], np.exp(data))
    assert results[1] == np.exp(data).max()


def test_moves_of_inputs_are_views(evaluate: Evaluate) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (40, 30)))
    turned = builder.add("permute", [x], axes=(1, 0))
    part = builder.add("slice", [turned], start=(5, 0), stop=(25, 40), step=(1, 1))
    graph = builder.build([builder.add("matmul", [part, x])])
    program = compile_graph(graph, CpuBackend())
    assert [step.view is not None for step in program.steps] == [True, True, False]
    data = np.random.default_rng(3).standard_normal((40, 30)).astype(np.float32)
    (result,) = evaluate(graph, [data])
    np.testing.assert_allclose(result, data.T[5:25] @ data, rtol=1e-5, atol=1e-5)


def test_what_blas_cannot_read_is_copied_where_the_planner_said(evaluate: Evaluate) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (40, 60)))
    sparse = builder.add("slice", [x], start=(0, 0), stop=(40, 60), step=(1, 2))
    graph = builder.build([builder.add("matmul", [sparse, x], transpose_a=True)])
    program = compile_graph(graph, CpuBackend())
    assert all(step.view is None for step in program.steps)
    data = np.random.default_rng(4).standard_normal((40, 60)).astype(np.float32)
    (result,) = evaluate(graph, [data])
    np.testing.assert_allclose(result, data[:, ::2].T @ data, rtol=1e-5, atol=1e-5)


def test_a_move_of_an_intermediate_is_a_copy(evaluate: Evaluate) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("int32", (3, 4)))
    turned = builder.add("permute", [chain_of(builder, x, ["neg"])], axes=(1, 0))
    graph = builder.build([chain_of(builder, turned, ["abs"])])
    assert all(step.view is None for step in compile_graph(graph, CpuBackend()).steps)
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(evaluate(graph, [data])[0], data.T)


def test_outputs_that_are_inputs_or_said_twice(evaluate: Evaluate) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("int64", (2, 3)))
    turned = builder.add("permute", [x], axes=(1, 0))
    graph = builder.build([x, turned, x, turned])
    data = np.arange(6, dtype=np.int64).reshape(2, 3)
    for result, expected in zip(evaluate(graph, [data]), [data, data.T] * 2, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_memory_is_the_planners(evaluate: Evaluate) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (128, 128)))
    product = builder.add("matmul", [x, x])
    graph = builder.build([builder.add("matmul", [product, x])])
    program = compile_graph(graph, CpuBackend())
    plan = plan_memory(graph)
    assert program.arena_bytes == plan.arena_bytes == 128 * 128 * 4
    assert program.private_bytes == plan.arena_bytes + plan.scratch_bytes


def test_class_exact_refuses_what_has_no_fixed_order() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 2)))
    graph = builder.build([builder.add("cholesky", [x])])
    with pytest.raises(EngineError) as caught:
        compile_graph(graph, CpuBackend(), "exact")
    assert caught.value.code == "task_refused"


def test_shares_of_the_work_add_up() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (256, 256)))
    product = builder.add("matmul", [x, x])
    graph = builder.build([builder.add("reduce", [product], axes=(0,), function="sum")])
    program = compile_graph(graph, CpuBackend())
    shares = [step.share for step in program.steps]
    assert sum(shares) == pytest.approx(1.0)
    assert shares[0] > shares[1]


def test_an_error_inside_a_composite_is_the_composites() -> None:
    builder = GraphBuilder()
    scores = builder.add("gelu", [builder.input(TensorSpec("float32", (2, 3)))])
    labels = builder.input(TensorSpec("int64", (2,)))
    graph = builder.build([builder.add("cross_entropy", [scores, labels], axis=1)])
    program = compile_graph(graph, CpuBackend())
    pool = Pool(1)
    arrays = [np.zeros((2, 3), np.float32), np.array([1, 3])]
    try:
        with pytest.raises(KernelError) as raised:
            program.run(
                arrays,
                [np.empty(2, np.float32)],
                np.empty(program.arena_bytes, np.uint8),
                Context(pool),
            )
    finally:
        pool.close()
    assert raised.value.code == "index_out_of_range"
    assert graph.nodes[program.position].operator == "cross_entropy"


def test_what_nobody_reads_is_not_computed() -> None:
    """The checks forbid it in a graph; a decomposition may leave it."""
    spec = TensorSpec("float32", (3,))
    tree = (("tree", call_formula("neg")),)
    dead = Node("formula", 1, tree, (0,), (spec,))
    kept = Node("reduce", 1, one_sum().nodes[0].attributes, (0,), (TensorSpec("float32", ()),))
    graph = Graph((spec,), (), (kept, dead), (1,))
    assert [step.node for step in compile_graph(graph, CpuBackend()).steps] == [0]


def one_sum() -> Graph:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (3,)))
    return builder.build([builder.add("reduce", [value], axes=(0,), function="sum")])
