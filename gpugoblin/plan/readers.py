"""Which tasks of a stage read a blob of an earlier one.

Owns: the way back from a blob to its readers: through the spans, one loop at a time, never task by
task. Must not: plan.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from gpugoblin.plan.flow import Held, Instance
from gpugoblin.plan.spans import Range, Span
from gpugoblin.plan.spec import TaskOutputRef
from gpugoblin.plan.stage import Stage

__all__ = ["readers"]


def readers(stage: Stage, maker: Stage, offset: int) -> set[int]:
    """Numbers of the tasks of `stage` that read an output of task `offset` of `maker`."""
    found: set[int] = set()
    for place, instance in enumerate(stage.program.instances):
        held = instance.held
        if held is None or held.first != maker.first:
            continue
        if not stage.clipped and not stage.needs(place):
            continue
        for combination in product(*_choices(stage, instance, held, offset)):
            found.add(stage.offset(combination))
    if stage.clipped:
        found = {one for one in found if _reads(stage, one, maker.first + offset)}
    return {stage.first + one for one in found}


def _choices(stage: Stage, instance: Instance, held: Held, offset: int) -> list[list[int]]:
    """For each loop the pieces whose tile reaches the blobs of task `offset`."""
    allowed = [set(range(loop.count)) for loop in stage.loops]
    tests: list[tuple[Span, Range]] = []
    for span, loop, stride in zip(instance.spans, held.loops, held.strides, strict=True):
        if loop.count > 1:
            tests.append((span, loop.piece(offset // stride % loop.count)))
    if held.layers > 1:
        layer = offset % held.layers
        tests.append((instance.layers, (layer, layer + 1)))
    for span, (low, high) in tests:
        if span.loop >= 0:
            ranges = enumerate(_table(stage, span))
            allowed[span.loop] &= {
                at for at, (start, stop) in ranges if start < high and low < stop
            }
        elif not (span.fixed[0] < high and low < span.fixed[1]):
            return [[]]
    return [sorted(some) for some in allowed]


@lru_cache(maxsize=256)
def _table(stage: Stage, span: Span) -> tuple[Range, ...]:
    """The range of a span for every piece of its loop."""
    pieces = stage.pieces(stage.middle)
    ranges = []
    loop = stage.loops[span.loop]
    for at in range(loop.count):
        pieces[span.loop] = loop.piece(at)
        ranges.append(span.at(pieces))
    return tuple(ranges)


def _reads(stage: Stage, offset: int, task: int) -> bool:
    return any(
        isinstance(source, TaskOutputRef) and source.task == task
        for source in stage.tile(offset).inputs
    )
