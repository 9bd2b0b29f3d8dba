"""Outputs that are made together.

Owns: which outputs share enough to be tiled by the same loops, and the cut of such a group. Must
not: decide whether that pays.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpugoblin.plan.fit import Cut
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.stage import Want

__all__ = ["group_cut", "may_join"]


def may_join(flow: Flow, group: Sequence[int], output: int) -> bool:
    """Whether an output reads what the group's outputs read, and has their first axis."""
    specs = flow.graph.output_specs()
    if any(specs[one].shape[:1] != specs[output].shape[:1] for one in group):
        return False
    own = _read(flow, flow.graph.outputs[output])
    return any(own & _read(flow, flow.graph.outputs[one]) for one in group)


def _read(flow: Flow, value: int) -> set[int]:
    """The values of some size that a value is made from, itself included."""
    found: set[int] = set()
    todo = [value]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            if one in flow.makers:
                first, node = flow.makers[one]
                found.add(first)
                todo.extend(node.inputs)
    return {one for one in found if flow.specs[one].count > 1}


def group_cut(flow: Flow, group: Sequence[int]) -> Cut:
    """The cut of a group: along all axes where all shapes are equal, else along the first one."""
    specs = flow.graph.output_specs()
    shape = specs[group[0]].shape
    equal = all(specs[one].shape == shape for one in group)
    cut_axes = [axis for axis, extent in enumerate(shape) if extent > 1 and (equal or axis == 0)]
    places: dict[int, list[int]] = {}
    for one in group:
        places.setdefault(flow.graph.outputs[one], []).append(one)
    wants = tuple(
        Want(
            value,
            tuple(
                cut_axes.index(axis) if axis in cut_axes else None
                for axis in range(flow.specs[value].rank)
            ),
            tuple(outputs),
        )
        for value, outputs in places.items()
    )
    extents = tuple(shape[axis] for axis in cut_axes)
    return Cut(wants, extents, extents, tuple(range(len(extents))))
