"""Stages: numbering, shared graphs, and what is in one."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.spans import Loop, Span, make_loop
from gpugoblin.plan.spec import ArrayRegion, OutputPlace, Region, TaskOutputRef
from gpugoblin.plan.stage import Stage, Want, all_spans, sink_of
from tests.helpers.programs import chain, float32, gram, reduction


def rows(count: int, width: int, step: int) -> Stage:
    flow = Flow.of(chain(count, width))
    want = Want(flow.graph.outputs[0], (0, None), (0,))
    return Stage(flow, [want], [make_loop(count, step)], {}, 5)


def test_tasks_are_numbered_from_the_first() -> None:
    stage = rows(10, 6, 4)
    task = stage.task(2)
    assert task.index == 7
    assert task.inputs == (ArrayRegion(0, Region((8, 0), (10, 6))),)
    assert task.outputs == (OutputPlace(0, Region((8, 0), (10, 6))),)
    assert task.depends_on == ()


def test_equal_tiles_share_one_graph() -> None:
    stage = rows(1_000_000, 6, 4)
    assert stage.count == 250_000
    assert stage.task(3).graph is stage.task(249_998).graph


def test_totals_are_those_of_all_tasks() -> None:
    stage = rows(10, 6, 4)
    tasks = [stage.task(offset) for offset in range(stage.count)]
    found = stage.totals()
    assert found.tasks == 3
    assert found.flops == sum(task.flops for task in tasks)
    assert found.bytes_in + found.bytes_out == sum(task.bytes_moved for task in tasks)
    assert found.bound_bytes == max(task.memory_bound_bytes for task in tasks)


def test_tasks_with_the_larger_shared_input_follow_each_other() -> None:
    flow = Flow.of(gram(12, 5))
    want = Want(flow.graph.outputs[0], (0, 1), (0,))
    stage = Stage(flow, [want], [make_loop(12, 2), make_loop(12, 6)], {}, 0)
    columns = [stage.task(offset).outputs[0].region.start[1] for offset in range(stage.count)]
    affinities = [stage.task(offset).affinity for offset in range(stage.count)]
    assert columns == [0] * 6 + [6] * 6
    assert len(set(affinities[:6])) == len(set(affinities[6:])) == 1
    assert affinities[0] != affinities[6]


def test_partial_results_of_one_piece_follow_each_other() -> None:
    flow = Flow.of(reduction("sum", (0,), 12, 8))
    value = flow.graph.outputs[0]
    want = Want(value, (0,), (None,), (("i0", 1),))
    stage = Stage(flow, [want], [make_loop(8, 4), make_loop(12, 3)], {}, 0)
    held = stage.held(want, "add")
    assert (held.layers, held.tiles, held.strides, held.combine) == (4, 2, (4,), "add")
    after = Stage(flow, [Want(value, (0,), (0,))], [make_loop(8, 4)], {value: held}, stage.count)
    assert after.task(1).inputs == tuple(TaskOutputRef(task, 0) for task in range(4, 8))
    assert after.task(1).depends_on == (4, 5, 6, 7)


def test_loops_of_one_piece_cut_nothing() -> None:
    flow = Flow.of(gram(12, 5))
    want = Want(flow.graph.outputs[0], (0, 1))
    stage = Stage(flow, [want], [make_loop(12, 4), make_loop(12, 12)], {}, 0)
    assert {span.loop for span in all_spans(stage.program)} == {-1, 0}
    assert sink_of(flow, want).spans == (Span(0), Span(1))


def test_copies_of_a_result_are_outputs() -> None:
    flow = Flow.of(chain(8, 3))
    first = Want(flow.graph.outputs[0], (0, None), (None, 0))
    stage = Stage(flow, [first], [make_loop(8, 4)], {}, 0)
    task = stage.task(1)
    assert [place.array for place in task.outputs] == [None, 0]
    assert len(task.graph.output_specs()) == 2
    assert stage.held(first).slot == 0


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7])
def test_totals_over_a_seam(step: int) -> None:
    builder = GraphBuilder()
    x, y = builder.input(float32(7, 2)), builder.input(float32(6, 2))
    flow = Flow.of(builder.build([builder.add("concat", [x, y], axis=0)]))
    want = Want(flow.graph.outputs[0], (0, None), (0,))
    stage = Stage(flow, [want], [make_loop(13, step)], {}, 0)
    tasks = [stage.task(offset) for offset in range(stage.count)]
    assert stage.totals().bound_bytes == max(task.memory_bound_bytes for task in tasks)
    found = stage.totals()
    assert found.bytes_in + found.bytes_out == sum(task.bytes_moved for task in tasks)


def test_needs_tells_what_tiles_read() -> None:
    stage = rows(10, 6, 4)
    assert all(stage.needs(place) for place in range(len(stage.program.instances)))
    assert stage.coordinates(2) == (2,)
    assert stage.offset((2,)) == 2
    assert stage.loops == (Loop(10, 4, 10),)


def test_tiles_where_parts_of_a_constant_meet_do_not_stand_for_the_others() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(1, 4))
    indices = builder.constant(np.arange(4, dtype=np.int32))
    taken = builder.add("gather", [x, indices], axis=1)
    flow = Flow.of(builder.build([builder.add("matmul", [taken, taken], transpose_a=True)]))
    want = Want(flow.graph.outputs[0], (0, 1), (0,))
    stage = Stage(flow, [want], [make_loop(4, 1), make_loop(4, 1)], {}, 0)
    tasks = [stage.task(offset) for offset in range(stage.count)]
    assert len({task.memory_bound_bytes for task in tasks}) == 2
    assert stage.typical().bound_bytes == max(task.memory_bound_bytes for task in tasks)
    assert stage.totals().flops == sum(task.flops for task in tasks)
