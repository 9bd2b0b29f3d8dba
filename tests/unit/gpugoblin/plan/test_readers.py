"""From a blob to the tasks that read it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.readers import readers
from gpugoblin.plan.spans import make_loop
from gpugoblin.plan.spec import TaskOutputRef
from gpugoblin.plan.stage import Stage, Want
from tests.helpers.programs import elementwise, float32


def require_inverse(maker: Stage, reader: Stage) -> None:
    """`readers` is what the inputs of all tasks say."""
    expected: dict[int, set[int]] = {}
    for offset in range(reader.count):
        for source in reader.task(offset).inputs:
            if isinstance(source, TaskOutputRef):
                expected.setdefault(source.task, set()).add(reader.first + offset)
    for offset in range(maker.count):
        assert readers(reader, maker, offset) == expected.get(maker.first + offset, set())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_two_grids_over_one_value(a: int, b: int, c: int, d: int) -> None:
    builder = GraphBuilder()
    x = builder.input(float32(12, 10))
    middle = elementwise(builder, "exp", x)
    turned = builder.add("permute", [middle], axes=(1, 0))
    ends = [
        builder.add("slice", [turned], start=(0, at), stop=(10, 8 + at), step=(1, 1))
        for at in (0, 4)
    ]
    flow = Flow.of(builder.build([elementwise(builder, "mul", *ends)]))
    value = flow.graph.numbered_nodes().__next__()[0]
    made = Want(value, (0, 1))
    maker = Stage(flow, [made], [make_loop(12, a), make_loop(10, b)], {}, 3)
    held = {value: maker.held(made)}
    want = Want(flow.graph.outputs[0], (0, 1), (0,))
    first = maker.first + maker.count
    reader = Stage(flow, [want], [make_loop(10, c), make_loop(8, d)], held, first)
    require_inverse(maker, reader)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 12))
def test_what_is_clipped_away_is_not_read(a: int, b: int) -> None:
    builder = GraphBuilder()
    x, y = builder.input(float32(6, 3)), builder.input(float32(5, 4))
    power = elementwise(builder, "exp", builder.input(float32(3, 4)))
    joined = builder.add("concat", [builder.add("matmul", [x, power]), y], axis=0)
    flow = Flow.of(builder.build([joined]))
    (value,) = [value for value, (_, node) in flow.makers.items() if node.operator == "formula"]
    made = Want(value, (0, None))
    maker = Stage(flow, [made], [make_loop(3, a)], {}, 0)
    want = Want(flow.graph.outputs[0], (0, None), (0,))
    reader = Stage(flow, [want], [make_loop(11, b)], {value: maker.held(made)}, maker.count)
    require_inverse(maker, reader)


def test_layers_have_the_readers_of_their_group() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(20, 4))
    flow = Flow.of(builder.build([builder.add("reduce", [x], axes=(0,), function="sum")]))
    value = flow.graph.outputs[0]
    made = Want(value, (0,), sums=(("i0", 1),))
    maker = Stage(flow, [made], [make_loop(4, 2), make_loop(20, 4)], {}, 0)
    want = Want(value, (0,), layers=1)
    held = {value: maker.held(made, "add")}
    reader = Stage(flow, [want], [make_loop(4, 2), make_loop(5, 2)], held, maker.count)
    require_inverse(maker, reader)
    assert readers(reader, maker, 0) == {10}
    assert readers(reader, maker, 9) == {15}
