"""The walk from results to what they need."""

from __future__ import annotations

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.flow import Flow, Held, Sink, trace
from gpugoblin.plan.spans import Loop, Span, full
from tests.helpers.programs import chain, elementwise, float32, gram, neighbors


def test_a_value_is_computed_once_for_equal_parts() -> None:
    flow = Flow.of(chain(12, 5))
    program = trace(flow, [Sink(flow.graph.outputs[0], (Span(0), full(5)))], {}, [(0, 4)])
    assert [one.kind for one in program.instances] == ["input", "node", "node", "node"]
    assert all(one.spans == (Span(0), full(5)) for one in program.instances)


def test_rows_and_columns_of_one_array_are_two_parts() -> None:
    flow = Flow.of(gram(12, 5))
    sink = Sink(flow.graph.outputs[0], (Span(0), Span(1)))
    program = trace(flow, [sink], {}, [(0, 4), (4, 8)])
    inputs = {one.spans for one in program.instances if one.kind == "input"}
    assert inputs == {(Span(0), full(5)), (Span(1), full(5))}


def test_neighboring_parts_become_one() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(100))
    root = elementwise(builder, "sqrt", x)
    parts = [
        builder.add("slice", [root], start=(at,), stop=(98 + at,), step=(1,)) for at in range(3)
    ]
    total = elementwise(builder, "add", elementwise(builder, "add", *parts[:2]), parts[2])
    flow = Flow.of(builder.build([total]))
    program = trace(flow, [Sink(flow.graph.outputs[0], (Span(0),))], {}, [(10, 20)])
    (source,) = [one for one in program.instances if one.kind == "input"]
    assert source.spans[0].at([(10, 20)]) == (10, 22)
    assert sum(one.kind == "node" for one in program.instances) == len(flow.graph.nodes)


def test_parts_far_from_each_other_stay_apart() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(100))
    parts = [builder.add("slice", [x], start=(at,), stop=(at + 40,), step=(1,)) for at in (0, 60)]
    flow = Flow.of(builder.build([elementwise(builder, "add", *parts)]))
    program = trace(flow, [Sink(flow.graph.outputs[0], (Span(0),))], {}, [(10, 20)])
    boxes = [one.spans[0].at([(10, 20)]) for one in program.instances if one.kind == "input"]
    assert sorted(boxes) == [(10, 20), (70, 80)]


def test_the_walk_stops_at_held_values() -> None:
    flow = Flow.of(gram(12, 5))
    product = next(
        value for value, node in flow.graph.numbered_nodes() if node.operator == "matmul"
    )
    loop = Loop(12, 4, 12)
    held = {product: Held(flow.specs[product], (loop, loop), 1, "", 7, (3, 1))}
    program = trace(flow, [Sink(flow.graph.outputs[0], (Span(0), Span(1)))], held, [(0, 4)] * 2)
    assert [one.kind for one in program.instances] == ["held", "node"]
    assert held[product].tiles == 9


def test_both_outputs_of_a_node_are_one_instance() -> None:
    flow = Flow.of(neighbors(12, 5, 3))
    sinks = [Sink(value, (Span(0), full(3))) for value in flow.graph.outputs]
    program = trace(flow, sinks, {}, [(0, 4)])
    assert [edge.output for edge in program.sinks] == [0, 1]
    assert len({edge.source for edge in program.sinks}) == 1


def test_a_held_output_does_not_hide_the_other_one() -> None:
    flow = Flow.of(neighbors(12, 5, 3))
    values, indices = flow.graph.outputs
    held = {values: Held(flow.specs[values], (Loop(12, 4, 12), Loop(3, 3, 3)), 1, "", 0, (1, 0))}
    sinks = [Sink(value, (Span(0), full(3))) for value in (values, indices)]
    program = trace(flow, sinks, held, [(0, 4)])
    kinds = [program.instances[edge.source].kind for edge in program.sinks]
    assert kinds == ["held", "node"]
