"""What part of its operands an application needs for a part of its result.

Owns: the reading of the operators' split rules, and what movement operators allow beyond them: a
slice is a range of its source, a piece of a concatenation lies in few of its operands, a reshape
splits or merges groups of axes. Must not: choose where to cut.

Nothing here is needed for correctness but that a range is never too small: an axis that no rule
covers is needed whole, and the result is then computed whole along it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from gpugoblin.catalog import registry
from gpugoblin.catalog.spec import AttrValue, Halo, Split, TensorSpec
from gpugoblin.graph.ir import Node
from gpugoblin.plan.spans import Map, Range, Span, full

__all__ = [
    "WINDOWED",
    "Demand",
    "demand",
    "local_attributes",
    "local_paddings",
    "reshape_groups",
    "splits_of",
    "sum_splits",
]

WINDOWED: Final = frozenset({"conv", "pool", "window"})
"""Operators whose windows slide over their first operand, padded by `low` and `high`."""


@dataclass(frozen=True, slots=True)
class Demand:
    """An application cut to a part.

    Args:
        computed: the part of the result that is computed; it holds the part that was asked for.
        operands: the part of each operand that this needs.
    """

    computed: tuple[Span, ...]
    operands: tuple[tuple[Span, ...], ...]


def splits_of(node: Node, inputs: Sequence[TensorSpec]) -> tuple[Split, ...]:
    """The node's index formula."""
    return registry.get(node.operator, node.version).splits(inputs, node.attrs)


def sum_splits(node: Node, inputs: Sequence[TensorSpec]) -> tuple[Split, ...]:
    """Indices along which partial results can be combined, of 2 or more values."""
    return tuple(
        split
        for split in splits_of(node, inputs)
        if split.kind == "sum" and _extent(split, inputs) > 1
    )


def _extent(split: Split, inputs: Sequence[TensorSpec]) -> int:
    for spec, axis in zip(inputs, split.operands, strict=True):
        if axis is not None:
            return spec.shape[axis]
    return 0


def demand(
    node: Node,
    inputs: Sequence[TensorSpec],
    wanted: Sequence[Span],
    sums: Mapping[str, Span] | None = None,
) -> Demand:
    """What computing at least the part `wanted` of the node's results takes.

    Args:
        sums: for some of the indices that are summed, the part that is: the result is a partial
            one.
    """
    match node.operator:
        case "slice":
            return _slice(node, wanted)
        case "concat":
            return _concat(node, inputs, wanted)
        case "reshape":
            return _reshape(inputs[0], node.outputs[0], wanted)
    computed = [full(extent) for extent in node.outputs[0].shape]
    operands = [[full(extent) for extent in spec.shape] for spec in inputs]
    for split in splits_of(node, inputs):
        if split.halo is not None and split.output is not None:
            span = computed[split.output] = wanted[split.output]
            if span != full(node.outputs[0].shape[split.output]):
                _reach(split.halo, split.operands, inputs, span, operands)
            continue
        if split.kind == "parallel" and split.output is not None:
            span = computed[split.output] = wanted[split.output]
        elif split.kind == "sum" and sums is not None and split.index in sums:
            span = sums[split.index]
        else:
            continue
        for operand, axis in enumerate(split.operands):
            if axis is not None:
                operands[operand][axis] = span
    return Demand(tuple(computed), tuple(map(tuple, operands)))


def _reach(
    halo: Halo,
    axes: Sequence[int | None],
    inputs: Sequence[TensorSpec],
    span: Span,
    operands: list[list[Span]],
) -> None:
    """What windows read of the axes that they slide over."""
    for operand, axis in enumerate(axes):
        if axis is not None:
            operands[operand][axis] = span.then(
                ("slice", -halo.low, halo.stride),
                ("reach", halo.reach - 1, halo.between + 1),
                ("clip", 0, inputs[operand].shape[axis]),
            )


def _slice(node: Node, wanted: Sequence[Span]) -> Demand:
    starts, steps = _ints(node.attrs["start"]), _ints(node.attrs["step"])
    source = tuple(
        span.then(("slice", start, step))
        for span, start, step in zip(wanted, starts, steps, strict=True)
    )
    return Demand(tuple(wanted), (source,))


def _concat(node: Node, inputs: Sequence[TensorSpec], wanted: Sequence[Span]) -> Demand:
    axis = node.attrs["axis"]
    operands: list[tuple[Span, ...]] = []
    offset = 0
    for spec in inputs:
        extent = spec.shape[axis] if isinstance(axis, int) else 0
        clip: Map = ("clip", offset, extent)
        operands.append(
            tuple(span.then(clip) if at == axis else span for at, span in enumerate(wanted))
        )
        offset += extent
    return Demand(tuple(wanted), tuple(operands))


def _reshape(before: TensorSpec, after: TensorSpec, wanted: Sequence[Span]) -> Demand:
    computed = [full(extent) for extent in after.shape]
    source = [full(extent) for extent in before.shape]
    for here, there in reshape_groups(before.shape, after.shape):
        if len(there) == 1:
            sizes = [prod(before.shape[axis] for axis in here[at:]) for at in range(len(here) + 1)]
            aligns: list[Map] = [("align", size, 0) for size in sizes[1:-1]]
            span = computed[there[0]] = wanted[there[0]].then(*aligns)
            for at, axis in enumerate(here):
                steps: list[Map] = []
                if at > 0:
                    steps.append(("inner", sizes[at], 0))
                if sizes[at + 1] > 1:
                    steps.append(("outer", sizes[at + 1], 0))
                source[axis] = span.then(*steps)
        elif len(here) == 1:
            first, *rest = there
            inner = prod(after.shape[axis] for axis in rest)
            computed[first] = wanted[first]
            source[here[0]] = wanted[first].then(("scale", inner, 0))
    return Demand(tuple(computed), (tuple(source),))


def reshape_groups(
    before: tuple[int, ...], after: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The finest groups of axes, of extent 2 or more, that hold the same elements in both shapes.

    None for shapes without elements.
    """
    if 0 in before:
        return []
    left = [axis for axis, extent in enumerate(before) if extent > 1]
    right = [axis for axis, extent in enumerate(after) if extent > 1]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while left:
        here, there = [left.pop(0)], [right.pop(0)]
        sizes = before[here[0]], after[there[0]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                here.append(left.pop(0))
                sizes = sizes[0] * before[here[-1]], sizes[1]
            else:
                there.append(right.pop(0))
                sizes = sizes[0], sizes[1] * after[there[-1]]
        groups.append((tuple(here), tuple(there)))
    return groups


def local_attributes(
    node: Node,
    inputs: Sequence[TensorSpec],
    operand: Sequence[Range],
    computed: Sequence[Range],
) -> dict[str, AttrValue]:
    """The attributes of one piece.

    Args:
        operand: the box of the first operand that there is.
        computed: the box that is computed.
    """
    attributes = node.attrs
    if node.operator in ("reshape", "broadcast"):
        attributes["shape"] = tuple(stop - start for start, stop in computed)
    elif node.operator == "slice":
        attributes["start"] = (0,) * len(operand)
        attributes["stop"] = tuple(stop - start for start, stop in operand)
    elif node.operator in WINDOWED:
        low, high = local_paddings(node, inputs, operand, computed)
        attributes["low"], attributes["high"] = low, high
    return attributes


def local_paddings(
    node: Node,
    inputs: Sequence[TensorSpec],
    operand: Sequence[Range],
    computed: Sequence[Range],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`low` and `high` of one piece of an operator of `WINDOWED`: where its windows begin before
    or end behind the part of the data that is there, both may be negative."""
    low, high = list(_ints(node.attrs["low"])), list(_ints(node.attrs["high"]))
    kept = len(computed) - len(low)
    for split in splits_of(node, inputs):
        axis, source = split.output, split.operands[0]
        if split.halo is None or axis is None or source is None:
            continue
        (start, stop), (first, last) = computed[axis], operand[source]
        whole = (start, stop) == (0, node.outputs[0].shape[axis])
        if whole and (first, last) == (0, inputs[0].shape[source]):
            continue
        halo, step = split.halo, split.halo.between + 1
        room = max(0, (stop - start - 1) * halo.stride + halo.reach)
        there = max(0, (last - first - 1) * step + 1)
        before = first * step + halo.low - start * halo.stride if there else 0
        low[axis - kept], high[axis - kept] = before, room - there - before
    return tuple(low), tuple(high)


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(value)
