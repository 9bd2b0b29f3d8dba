"""Outputs that are made together."""

from __future__ import annotations

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.grouping import group_cut, may_join
from tests.helpers.programs import elementwise, float32


def outputs() -> Flow:
    builder = GraphBuilder()
    x, y = builder.input(float32(6, 4)), builder.input(float32(6, 4))
    sine = elementwise(builder, "sin", x)
    total = builder.add("reduce", [x], axes=(1,), function="sum")
    return Flow.of(
        builder.build([sine, elementwise(builder, "cos", x), total, elementwise(builder, "sin", y)])
    )


def test_outputs_join_when_they_read_the_same_and_have_one_first_axis() -> None:
    flow = outputs()
    assert may_join(flow, [0], 1)
    assert may_join(flow, [0, 1], 2)
    assert not may_join(flow, [0], 3)


def test_equal_shapes_are_cut_along_all_axes() -> None:
    cut = group_cut(outputs(), [0, 1])
    assert cut.extents == (6, 4)
    assert [want.loops for want in cut.wants] == [(0, 1), (0, 1)]
    assert [want.places for want in cut.wants] == [(0,), (1,)]


def test_others_along_the_first() -> None:
    cut = group_cut(outputs(), [0, 2])
    assert cut.extents == (6,)
    assert [want.loops for want in cut.wants] == [(0, None), (0,)]


def test_one_value_may_be_several_outputs() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(6, 1))
    flow = Flow.of(builder.build([x, x]))
    cut = group_cut(flow, [0, 1])
    assert [want.places for want in cut.wants] == [(0, 1)]
    assert cut.wants[0].loops == (0, None)
