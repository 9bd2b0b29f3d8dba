"""Running plans by the reference interpreter, and the rules that every plan keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.graph.check import check
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.graph.numeric import agrees, allowed, error_bounds
from gpugoblin.plan.spec import ArrayRegion, Limits, Plan, PlannedTask, Region

__all__ = ["cover_of", "require_equal", "require_rules", "run_plan", "tasks_of"]


def box(region: Region) -> tuple[slice, ...]:
    return tuple(map(slice, region.start, region.stop))


def tasks_of(plan: Plan) -> list[PlannedTask]:
    return [plan.task(index) for index in range(plan.count)]


Evaluate = Callable[[Graph, Sequence[Array]], Sequence[Array]]


def run_plan(plan: Plan, inputs: Sequence[Array], evaluate: Evaluate = interpret) -> list[Array]:
    """The job's outputs, computed task by task; every element of them is written once."""
    outputs = [np.zeros(spec.shape, DTYPES[spec.dtype]) for spec in plan.outputs]
    written = [np.zeros(spec.shape, np.int64) for spec in plan.outputs]
    blobs: dict[tuple[int, int], Array] = {}
    for task in tasks_of(plan):
        read = [
            np.array(inputs[source.array][box(source.region)], order="C")
            if isinstance(source, ArrayRegion)
            else blobs[source.task, source.output]
            for source in task.inputs
        ]
        results = evaluate(task.graph, read)
        for slot, (place, result) in enumerate(zip(task.outputs, results, strict=True)):
            assert place.region.shape == result.shape
            if place.array is None:
                blobs[task.index, slot] = result
            else:
                outputs[place.array][box(place.region)] = result
                written[place.array][box(place.region)] += 1
    for one in written:
        assert (one == 1).all()
    return outputs


def cover_of(plan: Plan, output: int) -> list[Region]:
    """The boxes of an output, in the order in which they are made."""
    return [
        place.region for task in tasks_of(plan) for place in task.outputs if place.array == output
    ]


def require_rules(plan: Plan, limits: Limits) -> None:
    """What the node relies on: bounds, types, dependencies, consumers, and the summary."""
    tasks = tasks_of(plan)
    readers: dict[int, set[int]] = {task.index: set() for task in tasks}
    for task in tasks:
        check(task.graph)
        assert task.memory_bound_bytes == bound(task.graph) <= limits.memory_bytes
        assert len(task.inputs) == len(task.graph.inputs) <= 256
        tensors = [*task.graph.inputs, *task.graph.output_specs()]
        assert all(spec.nbytes <= limits.slot_bytes for spec in tensors)
        assert task.bytes_moved == sum(spec.nbytes for spec in tensors)
        sources = {one.task for one in task.inputs if not isinstance(one, ArrayRegion)}
        assert task.depends_on == tuple(sorted(sources))
        for before in task.depends_on:
            assert before < task.index
            readers[before].add(task.index)
        for source, spec in zip(task.inputs, task.graph.inputs, strict=True):
            if isinstance(source, ArrayRegion):
                assert source.region.shape == spec.shape
                assert spec.dtype == plan.inputs[source.array].dtype
            else:
                assert tasks[source.task].graph.output_specs()[source.output] == spec
                assert tasks[source.task].outputs[source.output].array is None
        for place, spec in zip(task.outputs, task.graph.output_specs(), strict=True):
            assert place.region.shape == spec.shape
            assert place.array is None or spec.dtype == plan.outputs[place.array].dtype
    for index, expected in readers.items():
        assert plan.consumers(index) == tuple(sorted(expected))
        intermediate = all(place.array is None for place in tasks[index].outputs)
        assert expected or not intermediate, "an intermediate that nobody reads"
    _require_chunks(plan, tasks)
    summary = plan.summary()
    assert summary.tasks == len(tasks)
    assert summary.flops == sum(task.flops for task in tasks)
    assert summary.verify_flops == sum(task.verify_flops for task in tasks)
    assert summary.bytes_in + summary.bytes_out == sum(task.bytes_moved for task in tasks)
    assert summary.memory_bound_bytes == max(task.memory_bound_bytes for task in tasks)


def _require_chunks(plan: Plan, tasks: Sequence[PlannedTask]) -> None:
    """Stored in chunks of the summary's tile, no chunk is written by two tasks."""
    tile = plan.summary().tile
    for task in tasks:
        for place in task.outputs:
            if place.array is None:
                continue
            shape = plan.outputs[place.array].shape
            more = max(0, len(shape) - len(tile))
            chunks = (*shape[:more], *tile[max(0, len(tile) - len(shape)) :])
            for start, stop, extent, chunk in zip(
                place.region.start, place.region.stop, shape, chunks, strict=True
            ):
                if start < stop and len(tasks) > 1:
                    assert start % chunk == 0
                    assert stop == extent or stop % chunk == 0


def require_equal(graph: Graph, inputs: Sequence[Array], found: Sequence[Array]) -> None:
    """Integers and bools equal to the unsplit result, floats within what is allowed."""
    whole = interpret(graph, inputs)
    exact = all(
        np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        for one, other in zip(found, whole, strict=True)
    )
    if exact:
        return
    error_bounds(graph, inputs)
    for one, other, limit in zip(found, whole, allowed(graph, inputs, whole), strict=True):
        assert agrees(one, other, limit).all()
