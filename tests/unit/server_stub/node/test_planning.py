"""Plans of jobs: the same after a restart, encoded once."""

from __future__ import annotations

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.dtypes import needs_of
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import decode, encode
from gpugoblin.plan.spec import Limits
from server_stub.node.planning import (
    Planner,
    operators_of,
    read_limits,
    total_bytes_moved,
    write_limits,
)

__all__: list[str] = []

LIMITS = Limits(8 * 2**20, 1, 2**20)


def product(rows: int = 3000) -> Graph:
    builder = GraphBuilder()
    left = builder.input(TensorSpec("float32", (rows, 64)))
    right = builder.input(TensorSpec("float32", (64, 500)))
    return builder.build((builder.add("matmul", (left, right)),))


def test_limits_survive_storage() -> None:
    assert read_limits(write_limits(LIMITS)) == LIMITS


def test_a_rebuilt_plan_is_the_same_plan() -> None:
    planner = Planner()
    first = planner.of_job("job_a", encode(product()), write_limits(LIMITS), None)
    assert planner.of_job("job_a", b"", "", None) is first, "it is remembered"
    planner.forget("job_a")
    again = planner.of_job("job_a", encode(product()), write_limits(LIMITS), None)
    assert again is not first
    assert again.count == first.count > 1
    one, two = planner.batch(first, 0, 1000), Planner().batch(again, 0, 1000)
    assert [name for _, name, _ in one.tasks] == [name for _, name, _ in two.tasks]
    assert [task.inputs for task, _, _ in one.tasks] == [task.inputs for task, _, _ in two.tasks]


def test_a_batch_carries_each_graph_once() -> None:
    planner = Planner()
    plan = planner.make(product(), LIMITS, None)
    batch = planner.batch(plan, 1, 2)
    assert [task.index for task, _, _ in batch.tasks] == list(range(1, min(3, plan.count)))
    for task, name, _ in batch.tasks:
        data, operators, dtypes = batch.graphs[name]
        assert dtypes == needs_of(task.graph).mask()
        assert decode(data) == task.graph
        assert operators == operators_of(task.graph)
    assert planner.batch(plan, plan.count, 5).tasks == ()


def test_bytes_moved_of_all_tasks() -> None:
    plan = Planner().make(product(), LIMITS, None)
    whole = sum(plan.task(index).bytes_moved for index in range(plan.count))
    assert abs(total_bytes_moved(plan) - whole) <= whole * 0.25
