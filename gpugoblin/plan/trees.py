"""Reductions over an axis that is cut: partial results, then trees that combine them.

Owns: how a node with summed indices is cut, and the stages that combine what it makes. The order is
fixed by the plan, so the result is the same whoever computes which part. Must not: choose which
reductions are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.plan.fit import TILE_BYTES, Cut, Fitted, fit
from gpugoblin.plan.flow import Flow, Held
from gpugoblin.plan.spans import Loop
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stage import Want
from gpugoblin.plan.views import splits_of

_MOST_AT_ONCE: Final = 128

__all__ = ["combine_all", "combine_some", "cut_of_value", "way_of_combining"]


def cut_of_value(
    flow: Flow, value: int, places: tuple[int | None, ...] = (None,), *, sums: bool = True
) -> Cut:
    """The cut that makes one value (all outputs of its node, where there are several).

    Args:
        places: of the copies of the result.
        sums: whether indices that are summed may be cut.
    """
    made = flow.makers.get(value)
    values = [value] if made is None else [made[0] + n for n in range(len(made[1].outputs))]
    extents: list[int] = []
    loops: list[int | None] = []
    common = _common_axes(flow, value, values)
    for axis, extent in enumerate(flow.specs[value].shape):
        cuts = extent > 1 and axis in common
        loops.append(len(extents) if cuts else None)
        if cuts:
            extents.append(extent)
    summed: list[tuple[str, int]] = []
    if made is not None and sums:
        inputs = flow.operands(made[1])
        for split in flow.sums(made[1]):
            summed.append((split.index, len(extents)))
            extents.append(
                next(
                    spec.shape[axis]
                    for spec, axis in zip(inputs, split.operands, strict=True)
                    if axis is not None
                )
            )
    wants = tuple(
        Want(one, _of_rank(loops, flow.specs[one].rank), places, tuple(summed)) for one in values
    )
    return Cut(wants, tuple(extents), tuple(extents), tuple(range(len(extents))))


def _common_axes(flow: Flow, value: int, values: Sequence[int]) -> set[int]:
    """The axes along which all outputs of a node can be cut by the same loops.

    Outputs of one shape are cut alike. Those of other shapes (Q and R) have in common only the axes
    that are parallel.
    """
    spec = flow.specs[value]
    if all(flow.specs[one].shape == spec.shape for one in values):
        return set(range(spec.rank))
    _, node = flow.makers[value]
    splits = splits_of(node, flow.operands(node))
    return {one.output for one in splits if one.kind == "parallel" and one.output is not None}


def _of_rank(loops: Sequence[int | None], rank: int) -> tuple[int | None, ...]:
    """The loops of an output of that rank; further axes are whole."""
    return tuple(loops[axis] if axis < len(loops) else None for axis in range(rank))


def way_of_combining(flow: Flow, value: int) -> str:
    """How partial results of a value are combined; empty where there are none."""
    made = flow.makers.get(value)
    if made is None:
        return ""
    return next((split.combine for split in flow.sums(made[1])), "")


def combine_some(
    flow: Flow,
    value: int,
    held: Held,
    first: int,
    limits: Limits,
    places: tuple[int | None, ...] = (None,),
) -> tuple[Fitted, Held] | None:
    """One level of the tree: as many partial results a task as fit, at most 128.

    Args:
        places: of the copies of what is left, if that is one result.

    Returns:
        the stage and what it leaves; None when not even two partial results fit.
    """
    cuts = tuple(range(len(held.loops)))
    fan_in = min(_MOST_AT_ONCE, held.layers)
    while fan_in >= 2:
        copies = places if fan_in >= held.layers else (None,)
        want = Want(value, cuts, copies, layers=len(cuts))
        loops = (*held.loops, Loop(held.layers, fan_in, held.layers))
        extents = tuple(loop.extent for loop in loops)
        cut = Cut((want,), extents, extents, (), fixed=loops)
        found = fit(flow, cut, {value: held}, first, limits)
        # Partial results may be large: fewer at a time keep the task as small as the others.
        if found.good and (fan_in == 2 or found.totals.bound_bytes <= 4 * TILE_BYTES):
            return found, found.stage.held(want, held.combine)
        fan_in = -(-fan_in // 2) if fan_in > 2 else 1
    return None


def combine_all(
    flow: Flow,
    value: int,
    held: Held,
    first: int,
    limits: Limits,
    most: int,
    places: tuple[int | None, ...] = (None,),
) -> tuple[list[Fitted], Held] | None:
    """Levels of the tree until at most `most` partial results are left of each piece.

    Args:
        places: of the copies of the result, where `most` is 1.
    """
    stages: list[Fitted] = []
    while held.layers > most:
        level = combine_some(flow, value, held, first, limits, places)
        if level is None:
            return None
        found, held = level
        stages.append(found)
        first += found.stage.count
    return stages, held
