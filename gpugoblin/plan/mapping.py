"""Whether a graph treats the positions along an axis independently (`gg.map_blocks`).

Owns: the answer, by the operators' split rules. Must not: cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from gpugoblin.errors import PlanError
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.plan.flow import Flow, Instance, trace
from gpugoblin.plan.spans import Loop, Span
from gpugoblin.plan.stage import Want, sink_of
from gpugoblin.plan.views import reshape_groups, splits_of

__all__ = ["block_wants", "require_independent"]


def block_wants(graph: Graph, axis: int) -> tuple[Want, ...]:
    """Every output, cut along `axis` by loop 0.

    Raises:
        PlanError: `plan_block_axis`, when an output has no such axis or another extent there.
    """
    specs = graph.output_specs()
    extents = {spec.shape[axis] if spec.rank > axis else None for spec in specs}
    if None in extents or len(extents) > 1:
        shapes = ", ".join(map(str, specs))
        raise PlanError(
            "plan_block_axis",
            axis=axis,
            operator="the graph",
            reason=f"gives {shapes}, which do not have one extent there",
        )
    places: dict[int, list[int]] = {}
    for number, value in enumerate(graph.outputs):
        places.setdefault(value, []).append(number)
    known = graph.specs()
    return tuple(
        Want(
            value,
            tuple(0 if at == axis else None for at in range(known[value].rank)),
            tuple(outputs),
        )
        for value, outputs in places.items()
    )


def require_independent(flow: Flow, axis: int) -> None:
    """Requires that no result depends on two positions of an input that is cut with `axis`.

    Raises:
        PlanError: `plan_block_axis`, naming the operator that mixes positions.
    """
    wants = block_wants(flow.graph, axis)
    extent = flow.graph.output_specs()[0].shape[axis]
    loop = Loop(extent, max(1, extent), extent)
    program = trace(flow, [sink_of(flow, want) for want in wants], {}, [loop.piece(0)])
    for instance in program.instances:
        for edge in instance.operands:
            _require_kept(flow, program.instances[edge.source], edge.spans, axis)
    for edge in program.sinks:
        _require_kept(flow, program.instances[edge.source], edge.spans, axis)
    cut: dict[int, set[int]] = {}
    for instance in program.instances:
        if instance.kind == "input":
            axes = {at for at, span in enumerate(instance.spans) if span.loop == 0}
            cut.setdefault(instance.number, set()).update(axes)
    carried: dict[int, set[int]] = {value: axes for value, axes in cut.items() if axes}
    for first, node in flow.graph.numbered_nodes():
        axes = _follow(flow, node, carried, axis)
        if axes:
            for output in range(len(node.outputs)):
                carried[first + output] = axes
    for value in flow.graph.outputs:
        if carried.get(value, {axis}) != {axis}:
            _refuse(axis, _maker(flow, value), "moves the positions to another axis")


def _require_kept(flow: Flow, source: Instance, wanted: Sequence[Span], axis: int) -> None:
    """Requires that what is computed follows the blocks wherever it is wanted by blocks."""
    for span, made in zip(wanted, source.spans, strict=True):
        widened = span.loop == 0 and (made.loop != 0 or any(m[0] == "align" for m in made.maps))
        if widened and source.kind == "node":
            _refuse(axis, flow.makers[source.number][1].operator, "needs it whole")


def _follow(flow: Flow, node: Node, carried: Mapping[int, set[int]], axis: int) -> set[int]:
    """The axes of the node's results along which the positions lie."""
    found: set[int] = set()
    inputs = flow.operands(node)
    for operand, value in enumerate(node.inputs):
        for own in carried.get(value, ()):
            if node.operator == "reshape":
                found.add(_reshaped(node, inputs[0].shape, own, axis))
                continue
            split = next(
                (one for one in splits_of(node, inputs) if one.operands[operand] == own), None
            )
            if split is None or split.kind != "parallel" or split.output is None:
                summed = split is not None and split.kind == "sum"
                _refuse(axis, node.operator, "sums over it" if summed else "needs it whole")
            found.add(split.output)
    if len(found) > 1:
        _refuse(axis, node.operator, "combines each position with every other")
    return found


def _reshaped(node: Node, before: tuple[int, ...], own: int, axis: int) -> int:
    """Where a reshape puts an axis of which it keeps positions apart."""
    for here, there in reshape_groups(before, node.outputs[0].shape):
        if here == (own,) and len(there) == 1:
            return there[0]
    if before[own] == 1:
        return own if own < node.outputs[0].rank else 0
    _refuse(axis, node.operator, "merges or splits it")


def _maker(flow: Flow, value: int) -> str:
    made: Sequence[object] | None = flow.makers.get(value)
    return flow.makers[value][1].operator if made is not None else "the graph"


def _refuse(axis: int, operator: str, reason: str) -> NoReturn:
    raise PlanError("plan_block_axis", axis=axis, operator=operator, reason=reason)
