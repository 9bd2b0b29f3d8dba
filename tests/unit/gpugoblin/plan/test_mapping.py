"""Independence along an axis."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.mapping import block_wants, require_independent
from tests.helpers.programs import chain, elementwise, float32, gram, softmax, variance

Body = Callable[[GraphBuilder, int], int]


def flow_of(body: Body, *shape: int) -> Flow:
    builder = GraphBuilder()
    return Flow.of(builder.build([body(builder, builder.input(float32(*shape)))]))


def test_independent_graphs_pass() -> None:
    require_independent(Flow.of(chain(6, 4)), 0)
    require_independent(Flow.of(softmax(1, 6, 4)), 0)
    require_independent(Flow.of(softmax(0, 6, 4)), 1)
    require_independent(flow_of(lambda b, x: b.add("reshape", [x], shape=(6, 20)), 6, 4, 5), 0)
    require_independent(flow_of(lambda b, x: b.add("permute", [x], axes=(0, 2, 1)), 6, 4, 5), 0)


def test_another_array_may_be_whole() -> None:
    builder = GraphBuilder()
    x, w = builder.input(float32(6, 6)), builder.input(float32(6, 6))
    mixed = elementwise(builder, "sub", w, builder.add("reduce", [w], axes=(0,), function="sum"))
    flow = Flow.of(builder.build([builder.add("matmul", [x, mixed])]))
    require_independent(flow, 0)


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        (lambda b, x: elementwise(
            b, "sub", x, b.add("reduce", [x], axes=(0,), function="max", keepdims=True)), "reduce"),
        (lambda b, x: b.add_many("topk", [x], axis=0, k=6)[0], "topk"),
        (lambda b, x: b.add("matmul", [x, x], transpose_b=True), "matmul"),
        (lambda b, x: b.add("matmul", [b.add("matmul", [x, x], transpose_b=True), x]), "matmul"),
        (lambda b, x: b.add("slice", [b.add("concat", [x, x], axis=0)],
                            start=(3, 0), stop=(9, 4), step=(1, 1)), "concat"),
        (lambda b, x: b.add("reshape", [b.add("reshape", [x], shape=(4, 6))], shape=(6, 4)),
         "reshape"),
    ],
)  # fmt: skip
def test_the_operator_that_mixes_is_named(body: Body, operator: str) -> None:
    flow = flow_of(body, 6, 4)
    with pytest.raises(PlanError) as caught:
        require_independent(flow, 0)
    assert caught.value.code == "plan_block_axis"
    assert caught.value.fields["operator"] == operator
    assert caught.value.fields["axis"] == 0


def test_outputs_need_the_axis() -> None:
    for graph, axis in ((variance((0,), 6, 4), 1), (chain(6), 1)):
        with pytest.raises(PlanError) as caught:
            block_wants(graph, axis)
        assert caught.value.code == "plan_block_axis"
    builder = GraphBuilder()
    x, y = builder.input(float32(3)), builder.input(float32(4))
    with pytest.raises(PlanError):
        block_wants(builder.build([x, y]), 0)


def test_wants() -> None:
    graph = gram(6, 4)
    (want,) = block_wants(graph, 1)
    assert want.loops == (None, 0)
    assert want.places == (0,)
