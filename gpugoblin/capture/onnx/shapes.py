"""Operators of ONNX that move and pick elements.

Owns: one small function for each. Source: the operator schemas of ai.onnx, opset 7 to 26.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import gpugoblin as gg
from gpugoblin.capture.applying import apply
from gpugoblin.capture.array import Array
from gpugoblin.capture.convert import constant_value
from gpugoblin.capture.expression import Value
from gpugoblin.capture.onnx.node import Call, Handler
from gpugoblin.capture.onnx.types import catalog_name

__all__ = ["HANDLERS", "UNSAID"]


def _reshape(call: Call) -> Array:
    x = call.array(0)
    wanted = call.ints("shape", 1) or []
    if not call.get("allowzero", 0):
        wanted = [x.shape[n] if extent == 0 else extent for n, extent in enumerate(wanted)]
    if -1 in wanted and x.size == 0:
        rest = int(np.prod([extent for extent in wanted if extent != -1]))
        wanted[wanted.index(-1)] = 0 if rest == 0 else x.size // rest
    return gg.reshape(x, tuple(wanted))


def _transpose(call: Call) -> Array:
    x = call.array(0)
    return gg.permute_dims(x, tuple(call.ints("perm") or reversed(range(x.ndim))))


def _squeeze(call: Call) -> Array:
    x, axes = call.array(0), call.ints("axes", 1)
    if axes is None:
        axes = [axis for axis, extent in enumerate(x.shape) if extent == 1]
    return gg.squeeze(x, tuple(axes))


def _unsqueeze(call: Call) -> Array:
    x, axes = call.array(0), call.ints("axes", 1) or []
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = gg.expand_dims(x, axis)
    return x


def _flatten(call: Call) -> Array:
    x, axis = call.array(0), call.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return gg.reshape(x, (rows, x.size // rows if rows else int(np.prod(x.shape[axis:]))))


def _concat(call: Call) -> Array:
    return gg.concat([one for one in call.inputs if one is not None], axis=call.get("axis"))


def _split(call: Call) -> tuple[Array, ...]:
    x, axis = call.array(0), call.get("axis", 0)
    extent = x.shape[axis]
    sizes = call.ints("split", 1)
    if sizes is None:
        count = call.get("num_outputs", call.outputs)
        part = -(-extent // count)
        sizes = [min(part, max(0, extent - part * n)) for n in range(count)]
    parts, start = [], 0
    for size in sizes:
        parts.append(_part(x, axis, slice(start, start + size)))
        start += size
    return tuple(parts)


def _part(x: Array, axis: int, part: Any) -> Array:
    return x[(*[slice(None)] * (axis % x.ndim), part)]


def _slice(call: Call) -> Array:
    x = call.array(0)
    starts, ends = call.ints("starts", 1) or [], call.ints("ends", 2) or []
    axes = call.ints("axes", 3) or list(range(len(starts)))
    steps = call.ints("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        extent = x.shape[axis]
        stop: int | None = end
        if step < 0 and end < -extent:
            stop = None
        x = _part(x, axis, slice(start, stop, step))
    return x


def _gather(call: Call) -> Array:
    x, axis = call.array(0), call.get("axis", 0)
    return gg.take(x, _counted(call.array(1), x.shape[axis]), axis=axis)


def _counted(indices: Array, extent: int) -> Array:
    """Positions from 0 on, where they may count from the end."""
    whole = indices.astype("int64")
    return gg.where(whole < 0, whole + extent, whole)


def _gather_elements(call: Call) -> Array:
    x, axis = call.array(0), call.get("axis", 0)
    axis %= x.ndim
    indices = _counted(call.array(1), x.shape[axis])
    for other, extent in enumerate(indices.shape):
        if other != axis and extent != x.shape[other]:
            x = _part(x, other, slice(0, extent))
    return gg.take_along_axis(x, indices, axis=axis)


def _gather_nd(call: Call) -> Array:
    x, indices, batch = call.array(0), call.array(1), call.get("batch_dims", 0)
    count = indices.shape[-1]
    places = [_counted(indices[..., n], x.shape[batch + n]) for n in range(count)]
    rank = places[0].ndim if places else 0
    lead = []
    for axis in range(batch):
        shape = tuple(x.shape[axis] if one == axis else 1 for one in range(rank))
        lead.append(gg.reshape(gg.arange(x.shape[axis]), shape))
    return x[(*lead, *places)]


def _expand(call: Call) -> Array:
    x, wanted = call.array(0), tuple(int(n) for n in call.numbers(1))
    return gg.broadcast_to(x, np.broadcast_shapes(x.shape, wanted))


def _tile(call: Call) -> Array:
    return gg.tile(call.array(0), tuple(int(n) for n in call.numbers(1)))


def _pad(call: Call) -> Array:
    x, mode = call.array(0), call.get("mode", "constant")
    widths = call.ints("pads", 1) or []
    axes = call.ints("axes", 3) or list(range(x.ndim))
    pairs = [(0, 0)] * x.ndim
    for number, axis in enumerate(axes):
        pairs[axis] = (widths[number], widths[number + len(axes)])
    if mode != "constant":
        for axis, pair in enumerate(pairs):
            x = _reflected(x, axis, pair, mode)
        return x
    cut = tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(pairs, x.shape, strict=True))
    x = x[cut]
    low, high = (tuple(max(0, pair[side]) for pair in pairs) for side in (0, 1))
    filler = call.optional(2)
    value = gg.full((), call.get("value", 0.0)) if filler is None else gg.reshape(filler, ())
    operands = [x.value, value.astype(x.dtype).value]
    node = apply("pad", operands, call.place, low=low, high=high, between=(0,) * x.ndim)
    return Array(Value(node, 0))


def _reflected(x: Array, axis: int, pair: tuple[int, int], mode: str) -> Array:
    if pair == (0, 0):
        return x
    names = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    order = np.pad(np.arange(x.shape[axis]), pair, mode=names[mode])  # type: ignore[call-overload]
    return gg.take(x, order, axis=axis)


def _shape(call: Call) -> Array:
    shape = call.array(0).shape[slice(call.get("start", 0), call.get("end"))]
    return gg.array(np.array(shape, np.int64))


def _constant(call: Call) -> Array:
    if "value" in call.attributes:
        return _held(call, call.get("value"))
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64),
                        ("value_floats", np.float32), ("value_ints", np.int64)):  # fmt: skip
        if name in call.attributes:
            return _held(call, np.array(call.get(name), dtype))
    raise call.refused("it holds no numbers", "Remove strings from the model.")


def _held(call: Call, array: np.ndarray[Any, Any]) -> Array:
    """One number is a part of the graph, more are an input."""
    return Array(constant_value(array, call.place)) if array.size == 1 else gg.array(array)


def _constant_of_shape(call: Call) -> Array:
    fill = call.get("value", np.zeros(1, np.float32)).reshape(())
    shape = tuple(int(n) for n in call.numbers(0))
    return gg.broadcast_to(gg.array(fill), shape)


def _range(call: Call) -> Array:
    start, limit, delta = (call.numbers(number) for number in range(3))
    return gg.array(np.arange(start.item(), limit.item(), delta.item()).astype(start.dtype))


def _eye_like(call: Call) -> Array:
    x = call.array(0)
    kind = call.get("dtype")
    dtype = x.dtype if kind is None else catalog_name(kind, call)
    return gg.eye(*x.shape, k=call.get("k", 0), dtype=dtype)


def _trilu(call: Call) -> Array:
    k = int(call.numbers(1).item()) if call.optional(1) is not None else 0
    return (gg.triu if call.get("upper", 1) else gg.tril)(call.array(0), k=k)


def _one_hot(call: Call) -> Array:
    depth = int(call.numbers(1).item())
    indices, values, axis = call.array(0), call.array(2), call.get("axis", -1)
    hit = gg.expand_dims(_counted(indices, depth), -1) == gg.arange(depth)
    found = gg.where(hit, values[1], values[0])
    return gg.moveaxis(found, -1, axis)


def _depth_to_space(call: Call) -> Array:
    x, block = call.array(0), call.get("blocksize")
    n, c, h, w = x.shape
    if call.get("mode", "DCR") == "DCR":
        split = gg.reshape(x, (n, block, block, c // block**2, h, w))
        turned = gg.permute_dims(split, (0, 3, 4, 1, 5, 2))
    else:
        split = gg.reshape(x, (n, c // block**2, block, block, h, w))
        turned = gg.permute_dims(split, (0, 1, 4, 2, 5, 3))
    return gg.reshape(turned, (n, c // block**2, h * block, w * block))


def _space_to_depth(call: Call) -> Array:
    x, block = call.array(0), call.get("blocksize")
    n, c, h, w = x.shape
    split = gg.reshape(x, (n, c, h // block, block, w // block, block))
    blocks_first = call.get("mode", "DCR") == "DCR"
    order = (0, 3, 5, 1, 2, 4) if blocks_first else (0, 1, 3, 5, 2, 4)
    turned = gg.permute_dims(split, order)
    return gg.reshape(turned, (n, c * block**2, h // block, w // block))


def _scatter_elements(call: Call) -> Array:
    x, updates, axis = call.array(0), call.array(2), call.get("axis", 0)
    axis %= x.ndim
    indices = _counted(call.array(1), x.shape[axis])
    flat: Any = None
    for other, extent in enumerate(indices.shape):
        shape = tuple(extent if one == other else 1 for one in range(x.ndim))
        place = indices if other == axis else gg.reshape(gg.arange(extent), shape)
        stride = int(np.prod(x.shape[other + 1 :]))
        flat = place * stride if flat is None else flat + place * stride
    inside = gg.logical_and(indices >= 0, indices < x.shape[axis])
    flat = gg.where(inside, flat, x.size)
    return _scattered(call, x, gg.broadcast_to(flat, indices.shape), updates, 0)


def _scatter_nd(call: Call) -> Array:
    x, indices, updates = call.array(0), call.array(1), call.array(2)
    count = indices.shape[-1]
    flat: Any = gg.zeros(indices.shape[:-1], dtype="int64")
    inside: Any = gg.full(indices.shape[:-1], True)
    for n in range(count):
        place = _counted(indices[..., n], x.shape[n])
        flat = flat + place * int(np.prod(x.shape[n + 1 : count]))
        inside = inside & (place >= 0) & (place < x.shape[n])
    flat = gg.where(inside, flat, int(np.prod(x.shape[:count])))
    return _scattered(call, x, flat, updates, count)


_REDUCTIONS: Final = {"none": "set", "add": "add", "min": "min", "max": "max"}


def _scattered(call: Call, x: Array, flat: Array, updates: Array, count: int) -> Array:
    """`updates` put at places of the first `count` axes merged into one; 0 merges all."""
    reduction = call.get("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise call.refused(f"the reduction {reduction!r} is not said", "Use none, add, min or max.")
    rest = x.shape[count:] if count else ()
    merged = gg.reshape(x, (-1, *rest)) if x.size else x
    places = gg.reshape(flat, (-1,))
    rows = gg.reshape(updates, (places.size, *rest))
    operands = [merged.value, places.value, rows.value]
    node = apply("scatter", operands, call.place, axis=0, function=_REDUCTIONS[reduction])
    return gg.reshape(Array(Value(node, 0)), x.shape)


def _reverse_sequence(call: Call) -> Array:
    x, lengths = call.array(0), call.array(1)
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    moved = gg.moveaxis(x, (batch, time), (0, 1))
    steps, ends = gg.arange(moved.shape[1]), gg.expand_dims(lengths.astype("int64"), 1)
    order = gg.where(steps < ends, ends - 1 - steps, steps)
    for _ in range(moved.ndim - 2):
        order = gg.expand_dims(order, -1)
    order = gg.broadcast_to(order, moved.shape)
    return gg.moveaxis(gg.take_along_axis(moved, order, axis=1), (0, 1), (batch, time))


def _unsaid(reason: str) -> Handler:
    def refuse(call: Call) -> Array:
        raise call.refused(reason, "Keep the shape with Where, or do it outside of the model.")

    return refuse


_COUNT: Final = "the shape of the result depends on numbers that are only known later"

HANDLERS: Final[dict[str, Handler]] = {
    "Compress": _unsaid(_COUNT),
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Identity": lambda call: call.array(0),
    "NonZero": _unsaid(_COUNT),
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": lambda call: gg.array(np.array(call.array(0).size, np.int64)),
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unique": _unsaid(_COUNT),
    "Unsqueeze": _unsqueeze,
}
"""Operator -> its handler. Those that always refuse say why."""

UNSAID: Final = frozenset({"Compress", "NonZero", "Unique"})
"""Operators whose handler always refuses."""
