"""Tiles and their graphs."""

from __future__ import annotations

import numpy as np

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.plan.flow import Flow, Held, Sink, trace
from gpugoblin.plan.spans import Loop, Range, Span, full
from gpugoblin.plan.spec import ArrayRegion, Region, TaskOutputRef
from gpugoblin.plan.tilegraph import MOST_BLOBS, build, evaluate, pieces_under, region, shape_of
from tests.helpers.programs import chain, elementwise, float32


def rows_of(flow: Flow) -> list[Sink]:
    value = flow.graph.outputs[0]
    return [Sink(value, (Span(0), *map(full, flow.specs[value].shape[1:])))]


def test_equal_tiles_have_equal_keys_and_others_have_not() -> None:
    flow = Flow.of(chain(12, 5))
    program = trace(flow, rows_of(flow), {}, [(0, 4)])
    first, second, last = (evaluate(flow, program, [one]) for one in ((0, 4), (4, 8), (8, 11)))
    assert first.key == second.key != last.key
    assert first.inputs == (ArrayRegion(0, Region((0, 0), (4, 5))),)
    assert build(flow, program, first, [(0, 4)]) == build(flow, program, second, [(4, 8)])


def test_a_part_of_a_concatenation_reads_only_what_it_touches() -> None:
    builder = GraphBuilder()
    x, y = builder.input(float32(6, 2)), builder.input(float32(4, 2))
    flow = Flow.of(builder.build([builder.add("concat", [x, y], axis=0)]))
    program = trace(flow, rows_of(flow), {}, [(0, 3)])
    pieces: list[tuple[Range, list[int]]] = [((0, 3), [0]), ((7, 10), [1]), ((4, 8), [0, 1])]
    for piece, arrays in pieces:
        tile = evaluate(flow, program, [piece])
        assert [one.array for one in tile.inputs if isinstance(one, ArrayRegion)] == arrays
        graph = build(flow, program, tile, [piece])
        assert bool(graph.nodes) == (len(arrays) > 1)


def test_equal_elements_of_a_constant_share_a_graph() -> None:
    for values, shared in (
        (np.ones(12, np.float32), True),
        (np.arange(12, dtype=np.float32), False),
    ):
        builder = GraphBuilder()
        x = builder.input(float32(12))
        graph = builder.build([elementwise(builder, "add", x, builder.constant(values))])
        flow = Flow.of(graph)
        program = trace(flow, rows_of(flow), {}, [(0, 4)])
        keys = {evaluate(flow, program, [one]).key for one in ((0, 4), (4, 8))}
        assert (len(keys) == 1) == shared
        tile = evaluate(flow, program, [(4, 8)])
        (found,) = interpret(build(flow, program, tile, [(4, 8)]), [np.zeros(4, np.float32)])
        np.testing.assert_array_equal(found, values[4:8])


def test_blobs_are_joined_and_layers_combined() -> None:
    flow = Flow.of(chain(10, 6))
    value = flow.graph.outputs[0]
    loops = (Loop(10, 4, 10), Loop(6, 4, 6))
    held = {value: Held(float32(10, 6), loops, 3, "add", 100, (6, 3))}
    program = trace(flow, [Sink(value, (Span(0), full(6)))], held, [(2, 6)])
    tile = evaluate(flow, program, [(2, 6)])
    tasks = [one.task for one in tile.inputs if isinstance(one, TaskOutputRef)]
    assert tasks == list(range(100, 112))
    graph = build(flow, program, tile, [(2, 6)])
    random = np.random.default_rng(1)
    layers = [random.integers(0, 9, (10, 6)).astype(np.float32) for _ in range(3)]
    blobs = [
        layers[layer][slice(*loops[0].piece(row)), slice(*loops[1].piece(column))]
        for row in range(2)
        for column in range(2)
        for layer in range(3)
    ]
    (found,) = interpret(graph, [np.ascontiguousarray(blob) for blob in blobs])
    np.testing.assert_array_equal(found, np.sum(layers, axis=0)[2:6])


def test_more_blobs_than_a_task_may_have_are_only_counted() -> None:
    flow = Flow.of(chain(5000))
    value = flow.graph.outputs[0]
    held = {value: Held(float32(5000), (Loop(5000, 1, 5000),), 1, "", 0, (1,))}
    program = trace(flow, [Sink(value, (Span(0),))], held, [(0, 5000)])
    tile = evaluate(flow, program, [(0, 5000)])
    assert tile.count == 5000 > MOST_BLOBS
    assert not tile.inputs


def test_what_has_no_elements_needs_nothing() -> None:
    flow = Flow.of(chain(0, 5))
    program = trace(flow, rows_of(flow), {}, [(0, 0)])
    tile = evaluate(flow, program, [(0, 0)])
    assert tile.inputs == ()
    (found,) = interpret(build(flow, program, tile, [(0, 0)]), [])
    assert found.shape == (0, 5)


def test_boxes() -> None:
    assert region(((1, 3), (0, 2))) == Region((1, 0), (3, 2))
    assert shape_of(((1, 3), (0, 2))) == (2, 2)
    held = Held(float32(10), (Loop(10, 4, 10),), 1, "", 0, (1,))
    assert pieces_under(held, ((3, 5),)) == (range(2),)


def test_outputs_of_other_shapes_are_cut_along_the_axes_that_they_share() -> None:
    builder = GraphBuilder()
    vectors, values = builder.add_many("eigh", [builder.input(float32(6, 3, 3))])
    doubled = builder.add("formula", [values, values], tree=call_formula("add"))
    graph = builder.build([vectors, doubled])
    flow = Flow.of(graph)
    sinks = [Sink(graph.outputs[0], (Span(0), full(3), full(3)))]
    sinks.append(Sink(graph.outputs[1], (Span(0), full(3))))
    piece: Range = (2, 4)
    program = trace(flow, sinks, {}, [piece])
    tile = evaluate(flow, program, [piece])
    matrices = np.random.default_rng(0).standard_normal((6, 3, 3)).astype(np.float32)
    found = interpret(build(flow, program, tile, [piece]), [matrices[2:4]])
    for part, whole in zip(found, interpret(graph, [matrices]), strict=True):
        np.testing.assert_array_equal(part, whole[2:4])
