"""Rules for operators that only move elements: fewer of them, and one way to say a thing.

Owns: the rules, each of which keeps every bit. A rule gets the builder, the operands and the
attributes of a node, and returns values that stand for it, or None to leave it. Must not: compute a
number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpugoblin.catalog.spec import AttrValue
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.formulas import Emit, narrower
from gpugoblin.graph.ir import Node

__all__ = ["RULES", "Rule"]

Operands = tuple[int, ...]
Given = dict[str, AttrValue]
Rule = Callable[[GraphBuilder, Operands, Given, Emit], Operands | None]


def _ints(value: AttrValue) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else ()


def _made_by(builder: GraphBuilder, value: int, operator: str) -> Node | None:
    source = builder.source(value)
    return source if isinstance(source, Node) and source.operator == operator else None


def _reshape(
    builder: GraphBuilder, operands: Operands, given: Given, emit: Emit
) -> Operands | None:
    """Nothing where the shape stays; one reshape for two."""
    (value,) = operands
    if builder.spec(value).shape == given["shape"]:
        return operands
    before = _made_by(builder, value, "reshape")
    return None if before is None else emit(builder, "reshape", None, before.inputs, given)


def _permute(
    builder: GraphBuilder, operands: Operands, given: Given, emit: Emit
) -> Operands | None:
    """One permutation for two; a reshape where only axes of 1 move."""
    (value,) = operands
    axes, shape = _ints(given["axes"]), builder.spec(value).shape
    if axes == tuple(range(len(axes))):
        return operands
    before = _made_by(builder, value, "permute")
    if before is not None:
        inner = _ints(before.attrs["axes"])
        merged = tuple(inner[axis] for axis in axes)
        return emit(builder, "permute", None, before.inputs, {"axes": merged})
    moved = [axis for axis in axes if shape[axis] != 1]
    if moved == sorted(moved):
        target = tuple(shape[axis] for axis in axes)
        return emit(builder, "reshape", None, operands, {"shape": target})
    return None


def _broadcast(
    builder: GraphBuilder, operands: Operands, given: Given, emit: Emit
) -> Operands | None:
    """One broadcast for two; a reshape where only axes of 1 are new."""
    (value,) = operands
    shape, spec = _ints(given["shape"]), builder.spec(value)
    if spec.shape == shape:
        return operands
    before = _made_by(builder, value, "broadcast")
    if before is None and (narrow := narrower(builder, value)) is not None:
        return emit(builder, "broadcast", None, (narrow,), given)
    if before is not None:
        return emit(builder, "broadcast", None, before.inputs, given)
    if spec.shape == shape[len(shape) - spec.rank :] and set(shape[: -spec.rank or None]) <= {1}:
        return emit(builder, "reshape", None, operands, {"shape": shape})
    return None


def _slice(builder: GraphBuilder, operands: Operands, given: Given, emit: Emit) -> Operands | None:
    """Nothing where all is taken; one slice for two."""
    (value,) = operands
    shape = builder.spec(value).shape
    start, stop, step = (_ints(given[name]) for name in ("start", "stop", "step"))
    counts = tuple(
        max(0, -(-(last - first) // stride))
        for first, last, stride in zip(start, stop, step, strict=True)
    )
    if counts == shape:
        return operands
    before = _made_by(builder, value, "slice")
    if before is None or 0 in counts:
        return None
    inner_start, inner_step = (_ints(before.attrs[name]) for name in ("start", "step"))
    first = tuple(a + b * c for a, b, c in zip(inner_start, start, inner_step, strict=True))
    stride = tuple(a * b for a, b in zip(inner_step, step, strict=True))
    last = tuple(a + (n - 1) * s + 1 for a, n, s in zip(first, counts, stride, strict=True))
    merged: Given = {"start": first, "stop": last, "step": stride}
    return emit(builder, "slice", None, before.inputs, merged)


def _cast(builder: GraphBuilder, operands: Operands, given: Given, emit: Emit) -> Operands | None:
    """Nothing where the dtype stays."""
    return operands if builder.spec(operands[0]).dtype == given["dtype"] else None


def _pad(builder: GraphBuilder, operands: Operands, given: Given, emit: Emit) -> Operands | None:
    """Nothing where nothing is added."""
    widths = [_ints(given[name]) for name in ("low", "high", "between")]
    return operands[:1] if not any(any(width) for width in widths) else None


def _flip(builder: GraphBuilder, operands: Operands, given: Given, emit: Emit) -> Operands | None:
    """Nothing where no axis has two elements; nothing for two that undo each other."""
    (value,) = operands
    shape, axes = builder.spec(value).shape, _ints(given["axes"])
    needed = tuple(axis for axis in axes if shape[axis] > 1)
    before = _made_by(builder, value, "flip")
    if before is not None:
        both = set(needed) ^ set(_ints(before.attrs["axes"]))
        return emit(builder, "flip", None, before.inputs, {"axes": tuple(sorted(both))})
    if not needed:
        return operands
    return None if needed == axes else emit(builder, "flip", None, operands, {"axes": needed})


def _concat(builder: GraphBuilder, operands: Operands, given: Given, emit: Emit) -> Operands | None:
    """Nothing for one."""
    return operands if len(operands) == 1 else None


def _reduce(builder: GraphBuilder, operands: Operands, given: Given, emit: Emit) -> Operands | None:
    """Axes that are kept with extent 1 are a reshape of the result."""
    if not given["keepdims"]:
        return None
    axis = given.get("axis")
    gone = _ints(given["axes"]) if "axes" in given else (axis,)
    shape = builder.spec(operands[0]).shape
    kept = tuple(1 if place in gone else extent for place, extent in enumerate(shape))
    operator = "reduce" if "axes" in given else "reduce_arg"
    found = emit(builder, operator, None, operands, {**given, "keepdims": False})
    return emit(builder, "reshape", None, found, {"shape": kept})


RULES: Final[dict[str, Rule]] = {
    "broadcast": _broadcast,
    "cast": _cast,
    "concat": _concat,
    "flip": _flip,
    "pad": _pad,
    "permute": _permute,
    "reduce": _reduce,
    "reduce_arg": _reduce,
    "reshape": _reshape,
    "slice": _slice,
}
"""Operator -> its rule."""
