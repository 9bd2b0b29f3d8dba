"""The stages that make one group of results.

Owns: the choice of what is computed in the tile and what by stages of its own. Must not: search
steps (`fit.py` does).

Everything is fused into the tile first: an elementwise chain costs nothing there, and a reduction
over an axis that stays whole is inside it. Where that does not fit, or makes tiles compute the same
again and again, the value that causes it is held: made by an earlier stage, in blobs, by a tree if
need be. Small values are cheaper to compute again than to send; large ones the other way round; the
burden of both plans decides.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import PlanError
from gpugoblin.graph.ir import Node
from gpugoblin.plan.figures import work
from gpugoblin.plan.fit import TILE_BYTES, Cut, Fitted, fit
from gpugoblin.plan.flow import Flow, Held
from gpugoblin.plan.spans import count_of
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.tilegraph import FAN_IN
from gpugoblin.plan.trees import combine_all, cut_of_value, way_of_combining
from gpugoblin.plan.views import splits_of

__all__ = ["Solution", "hold", "solve"]

_MIXING: Final = frozenset({"matmul", "reduce", "reduce_arg", "topk"})
_CANDIDATES: Final = 4
_SHARES: Final = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class Solution:
    """Stages, and the values that they leave for later ones."""

    stages: tuple[Fitted, ...] = ()
    held: Mapping[int, Held] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(one.stage.count for one in self.stages)

    @property
    def burden(self) -> float:
        return sum(one.burden for one in self.stages)

    @property
    def work(self) -> float:
        return sum(work(one.totals) for one in self.stages)

    @property
    def good(self) -> bool:
        return all(one.good for one in self.stages)

    def then(self, other: Solution) -> Solution:
        return Solution(self.stages + other.stages, {**self.held, **other.held})


def solve(flow: Flow, cut: Cut, held: Mapping[int, Held], first: int, limits: Limits) -> Solution:
    """The stages of a cut, what they need beforehand included.

    Args:
        held: values that earlier stages leave.
        first: number of the first task.

    Raises:
        PlanError: `plan_does_not_fit`, `plan_not_splittable`.
    """
    plain = fit(flow, cut, held, first, limits)
    if plain.efficient:
        return Solution((plain,))
    best: Solution | None = None
    best_burden = plain.burden if plain.good else math.inf
    fallback: Solution | None = None
    causes = _causes(flow, cut, plain, limits)
    for values in (*((value,) for value in causes), tuple(sorted(causes))):
        before, rest = _try(flow, cut, held, first, limits, values)
        if before is None or rest is None:
            continue
        if not rest.good:
            fallback = fallback or before
        elif before.burden + rest.burden < best_burden:
            best, best_burden = before, before.burden + rest.burden
    if best is None and not plain.good:
        for value in causes:
            before, rest = _aligned(flow, cut, held, first, limits, value)
            if before is not None and rest is not None:
                best = before
                break
    if plain.good and best is None:
        return Solution((plain,))
    chosen = best or fallback
    if chosen is None:
        raise _misfit(flow, plain, limits)
    rest_held = {**held, **chosen.held}
    return chosen.then(solve(flow, cut, rest_held, first + chosen.count, limits))


def _try(
    flow: Flow,
    cut: Cut,
    held: Mapping[int, Held],
    first: int,
    limits: Limits,
    values: Sequence[int],
) -> tuple[Solution, Fitted] | tuple[None, None]:
    """Stages that hold those of `values` (in order) that they can, and what then is left."""
    before = Solution()
    for value in values:
        known = {**held, **before.held}
        more = hold(flow, value, known, first + before.count, limits, FAN_IN)
        if more is None:
            continue
        layered = next(iter(more.held.values()))
        rest = _rest(flow, cut, held, first, limits, before.then(more))
        last = value == values[-1]
        if layered.layers > 1 and not (last and rest.good and rest.stage.count <= layered.tiles):
            # Many tasks will read it: they should not all combine it again.
            more = hold(flow, value, known, first + before.count, limits, 1)
        if more is not None:
            before = before.then(more)
    if not before.stages:
        return None, None
    return before, _rest(flow, cut, held, first, limits, before)


def _aligned(
    flow: Flow, cut: Cut, held: Mapping[int, Held], first: int, limits: Limits, value: int
) -> tuple[Solution, Fitted] | tuple[None, None]:
    """Holds one value in blobs that suit its readers: whole where they need it whole, and small.

    Blobs are read whole. Those that were cheap to make may be too large for who reads them, or lie
    across what they need.
    """
    before = hold(flow, value, held, first, limits, 1)
    if before is None:
        return None, None
    rest = _rest(flow, cut, held, first, limits, before)
    read = [one.spans for one in rest.stage.program.instances if one.held is before.held[value]]
    whole = {axis for spans in read for axis, span in enumerate(spans) if span.loop < 0}
    for share in _SHARES:
        part = Limits(limits.memory_bytes // share, limits.threads, limits.slot_bytes // share)
        before = hold(flow, value, held, first, part, 1, whole)
        if before is None:
            return None, None
        rest = _rest(flow, cut, held, first, limits, before)
        if rest.good:
            return before, rest
    return None, None


def _rest(
    flow: Flow,
    cut: Cut,
    held: Mapping[int, Held],
    first: int,
    limits: Limits,
    before: Solution,
) -> Fitted:
    return fit(flow, cut, {**held, **before.held}, first + before.count, limits)


def hold(
    flow: Flow,
    value: int,
    held: Mapping[int, Held],
    first: int,
    limits: Limits,
    most: int,
    whole: Collection[int] = (),
) -> Solution | None:
    """Stages that make a value, in at most `most` partial results; None when they do not fit.

    Args:
        whole: axes that stay whole.
    """
    cut = cut_of_value(flow, value)
    kept = {cut.wants[0].loops[axis] for axis in whole}
    cut = replace(cut, free=tuple(loop for loop in cut.free if loop not in kept))
    made = fit(flow, cut, held, first, limits)
    if not made.good:
        return None
    stages = [made]
    left: dict[int, Held] = {}
    for want in cut.wants:
        one = made.stage.held(want, way_of_combining(flow, want.value))
        after = first + sum(found.stage.count for found in stages)
        tree = combine_all(flow, want.value, one, after, limits, most)
        if tree is None:
            return None
        stages += tree[0]
        left[want.value] = tree[1]
    return Solution(tuple(stages), left)


def _causes(flow: Flow, cut: Cut, plain: Fitted, limits: Limits) -> list[int]:
    """Values that may be worth holding, those with the largest operands first."""
    wanted = {want.value for want in cut.wants}
    partial = any(want.sums for want in cut.wants)
    least = min(limits.memory_bytes, TILE_BYTES) // 8
    found: dict[int, int] = {}
    feeding = {
        edge.source
        for instance in plain.stage.program.instances
        if instance.kind == "node" and flow.makers[instance.number][1].operator == "matmul"
        for edge in instance.operands
    }
    for place, instance in enumerate(plain.stage.program.instances):
        if instance.kind != "node":
            continue
        value = instance.number
        _, node = flow.makers[value]
        operands = flow.operands(node)
        if node.operator not in _MIXING and place not in feeding:
            continue
        if value in wanted and (partial or not flow.sums(node)):
            continue
        size = sum(spec.nbytes for spec in operands)
        if size >= least:
            found[value] = size
    return sorted(found, key=lambda value: (-found[value], value))[:_CANDIDATES]


def _misfit(flow: Flow, plain: Fitted, limits: Limits) -> PlanError:
    """The error for a group of which not even the smallest tile fits; it names the largest step."""
    totals = plain.totals
    needed, limit = totals.bound_bytes, limits.memory_bytes
    if needed <= limit:
        needed, limit = totals.largest_bytes, limits.slot_bytes
    steps = _sizes(flow, plain)
    largest = max((size for size, _ in steps), default=0)
    # Of the large steps the one that cannot be cut is the cause, the others follow from it.
    _, node = max(
        steps,
        key=lambda step: (_is_whole(flow, step[1]) and 8 * step[0] >= largest, step[0]),
        default=(0, None),
    )
    fields = {
        "operator": "the graph" if node is None else node.operator,
        "output": str(flow.graph.output_specs()[0] if node is None else node.outputs[0]),
        "needed_bytes": needed,
        "limit_bytes": limit,
    }
    if node is not None and _is_whole(flow, node):
        return PlanError("plan_not_splittable", reason="an axis of it must stay whole", **fields)
    return PlanError("plan_does_not_fit", **fields)


def _sizes(flow: Flow, plain: Fitted) -> list[tuple[int, Node]]:
    """The nodes of a tile with the bytes that each reads and writes."""
    found: list[tuple[int, Node]] = []
    tile = plain.stage.typical_tile
    for instance, box, edges in zip(
        plain.stage.program.instances, tile.boxes, tile.edges, strict=True
    ):
        if instance.kind == "node" and box is not None:
            _, node = flow.makers[instance.number]
            parts = zip((box, *edges), (node.outputs[0], *flow.operands(node)), strict=True)
            sizes = [count_of(part) * DTYPES[spec.dtype].itemsize for part, spec in parts]
            found.append((sum(sizes), node))
    return found


def _is_whole(flow: Flow, node: Node) -> bool:
    """Whether an index of 2 or more values must stay whole."""
    operands = flow.operands(node)
    for split in splits_of(node, operands):
        axes = zip((*operands, node.outputs[0]), (*split.operands, split.output), strict=True)
        extents = [spec.shape[axis] for spec, axis in axes if axis is not None]
        if split.kind == "whole" and max(extents, default=0) > 1:
            return True
    return False
