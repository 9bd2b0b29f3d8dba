"""Plans of windows that slide: each tile reads its neighbors' edge, and pads only at the edges."""

from __future__ import annotations

import numpy as np

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.blockwise import plan_blocks
from gpugoblin.plan.spec import ArrayRegion, Limits
from gpugoblin.units import MIB
from tests.helpers.plans import require_equal, require_rules, run_plan, tasks_of
from tests.helpers.programs import float32


def pools(*shape: int) -> Graph:
    """A maximum of every second place, the mean of three neighbors of it, and what it is off."""
    builder = GraphBuilder()
    x = builder.input(float32(*shape))
    ones, rank = (1,) * len(shape), len(shape)
    largest = builder.add(
        "pool", [x], function="max", window=(3,) * rank, stride=(2,) * rank, dilation=ones,
        low=ones, high=ones,
    )  # fmt: skip
    total = builder.add(
        "pool", [largest], function="sum", window=(3,) * rank, stride=ones, dilation=ones,
        low=ones, high=ones,
    )  # fmt: skip
    return builder.build([total])


def test_pools_are_cut_along_space() -> None:
    graph = pools(61, 83)
    limits = Limits(bound(graph) // 3)
    plan = plan_blocks(graph, limits)
    assert plan.count >= 2
    require_rules(plan, limits)
    values = np.random.default_rng(0).standard_normal((61, 83)).astype(np.float32)
    require_equal(graph, [values], run_plan(plan, [values]))


def test_two_convolutions_read_little_more_than_their_part() -> None:
    builder = GraphBuilder()
    x, first, second = (builder.input(float32(*s)) for s in ((1, 2, 900, 900), (8, 2, 3, 3),
                                                             (2, 8, 3, 3)))  # fmt: skip
    given = {"stride": (1, 1), "dilation": (1, 1), "low": (1, 1), "high": (1, 1), "between": (0, 0)}
    inner = builder.add("conv", [x, first], **given)
    graph = builder.build([builder.add("conv", [inner, second], **given)])
    limits = Limits(40 * MIB)
    assert bound(graph) > limits.memory_bytes
    plan = plan_blocks(graph, limits)
    require_rules(plan, limits)
    assert plan.count >= 2
    read = sum(
        int(np.prod(source.region.shape))
        for task in tasks_of(plan)
        for source in task.inputs
        if isinstance(source, ArrayRegion) and source.array == 0
    )
    # Each tile of rows reads two rows of each neighbor.
    assert read == 2 * 900 * (900 + 4 * (plan.count - 1))
    generator = np.random.default_rng(1)
    values = [
        generator.integers(-3, 3, spec.shape, endpoint=True).astype(np.float32)
        for spec in graph.inputs
    ]
    require_equal(graph, values, run_plan(plan, values))
