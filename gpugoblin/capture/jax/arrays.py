"""Primitives of JAX that move, pick, reduce and multiply. Owns: one small function for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import gpugoblin as gg
from gpugoblin.capture import products, shaping
from gpugoblin.capture.applying import apply
from gpugoblin.capture.array import Array
from gpugoblin.capture.expression import Value
from gpugoblin.capture.jax.call import Call, Handler

__all__ = ["HANDLERS"]


def _apply(call: Call, operator: str, *operands: Array, **given: Any) -> Array:
    values = [one.value for one in operands]
    return Array(Value(apply(operator, values, call.place, **given), 0))


def _reshape(call: Call) -> Array:
    return gg.reshape(call.array(0), call.shapes[0])


def _broadcast_in_dim(call: Call) -> Array:
    x, shape, places = call.array(0), call["shape"], call["broadcast_dimensions"]
    narrow = [1] * len(shape)
    for axis, place in enumerate(places):
        narrow[place] = x.shape[axis]
    return gg.broadcast_to(gg.reshape(x, tuple(narrow)), tuple(shape))


def _concatenate(call: Call) -> Array:
    return gg.concat(list(call.operands), axis=call["dimension"])


def _slice(call: Call) -> Array:
    start, stop = call["start_indices"], call["limit_indices"]
    step = call["strides"] or (1,) * len(start)
    return call.array(0)[tuple(slice(*part) for part in zip(start, stop, step, strict=True))]


def _split(call: Call) -> tuple[Array, ...]:
    x, axis, parts, start = call.array(0), call["axis"], [], 0
    for size in call["sizes"]:
        parts.append(x[(*[slice(None)] * axis, slice(start, start + size))])
        start += size
    return tuple(parts)


def _pad(call: Call) -> Array:
    x, filler = call.operands
    low, high, between = zip(*call["padding_config"], strict=True) if x.ndim else ((), (), ())
    cut = x
    if any(edge < 0 for edge in (*low, *high)):
        grown = tuple(max(0, edge) for edge in low), tuple(max(0, edge) for edge in high)
        whole = _apply(call, "pad", x, filler, low=grown[0], high=grown[1], between=tuple(between))
        parts = zip(low, high, whole.shape, strict=True)
        return whole[tuple(slice(max(0, -a), n - max(0, -b)) for a, b, n in parts)]
    return _apply(call, "pad", cut, filler, low=low, high=high, between=between)


def _dynamic_places(call: Call, starts: Any, sizes: Any, shape: Any) -> list[Array]:
    """For each axis the positions of a box whose start is kept inside, as JAX does."""
    places = []
    for start, size, extent in zip(starts, sizes, shape, strict=True):
        inside = gg.clip(start.astype("int64"), 0, extent - size)
        places.append(inside + gg.arange(size))
    return places


def _dynamic_slice(call: Call) -> Array:
    x, *starts = call.operands
    places = _dynamic_places(call, starts, call["slice_sizes"], x.shape)
    for axis, place in enumerate(places):
        if place.size != x.shape[axis]:
            x = gg.take(x, place, axis=axis)
    return x


def _dynamic_update(call: Call) -> Array:
    x, new, *starts = call.operands
    flat: Any = 0
    for axis, place in enumerate(_dynamic_places(call, starts, new.shape, x.shape)):
        shape = tuple(new.shape[axis] if one == axis else 1 for one in range(x.ndim))
        flat = flat + gg.reshape(place, shape) * math.prod(x.shape[axis + 1 :])
    if not x.ndim:
        return new
    places = gg.reshape(gg.broadcast_to(flat, new.shape), (-1,))
    line, rows = gg.reshape(x, (-1,)), gg.reshape(new, (-1,))
    found = _apply(call, "scatter", line, places, rows, axis=0, function="set")
    return gg.reshape(found, x.shape)


def _dot_general(call: Call) -> Array:
    summed, batch = call["dimension_numbers"]
    left, right = (one.value for one in call.operands)
    return Array(products.contract(left, right, summed, batch, call.place))


def _reduction(function: Callable[..., Array]) -> Handler:
    def handle(call: Call) -> Array:
        found = function(call.array(0), axis=tuple(call["axes"]))
        return found if str(found.dtype) == call.dtypes[0] else found.astype(call.dtypes[0])

    return handle


def _arg(function: Callable[..., Array]) -> Handler:
    return lambda call: function(call.array(0), axis=call["axes"][0]).astype(call.dtypes[0])


def _scan(name: str) -> Handler:
    def handle(call: Call) -> Array:
        return _apply(
            call, "scan_reduce", call.array(0), axis=call["axis"], function=name,
            reverse=bool(call["reverse"]),
        )  # fmt: skip

    return handle


def _sort(call: Call) -> Array | tuple[Array, ...]:
    if call["num_keys"] != 1:
        raise call.refused("it sorts by several keys", "Sort by one key.")
    first, *others = call.operands
    axis = call["dimension"]
    if not others:
        return gg.sort(first, axis=axis)
    order = gg.argsort(first, axis=axis)
    moved = [gg.take_along_axis(other, order, axis=axis) for other in others]
    return (gg.sort(first, axis=axis), *moved)


def _top_k(call: Call) -> tuple[Array, ...]:
    axis = call.parameters.get("axis", -1)
    values, places = gg.topk(call.array(0), call["k"], axis=axis)
    return values, places.astype(call.dtypes[1])


def _iota(call: Call) -> Array:
    shape, axis = call["shape"], call["dimension"]
    line = gg.arange(shape[axis], dtype="int64").astype(call.dtypes[0])
    narrow = tuple(extent if one == axis else 1 for one, extent in enumerate(shape))
    return gg.broadcast_to(gg.reshape(line, narrow), tuple(shape))


def _gather(call: Call) -> Array:
    """Every axis of the operand gets its positions over the result; then one pick."""
    x, indices = call.operands
    numbers, sizes = call["dimension_numbers"], call["slice_sizes"]
    batch = indices.shape[:-1]
    shape = call.shapes[0]
    outer = [axis for axis in range(len(shape)) if axis not in numbers.offset_dims]
    batching = dict(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )
    gone = {*numbers.collapsed_slice_dims, *batching}
    offsets = iter(numbers.offset_dims)
    places: list[Array] = []
    inside: Array | None = None

    def over_batch(array: Array) -> Array:
        narrow = [1] * len(shape)
        for axis, extent in zip(outer, batch, strict=True):
            narrow[axis] = extent
        return gg.reshape(gg.broadcast_to(array, batch), tuple(narrow))

    for axis, size in enumerate(sizes):
        place = gg.zeros((), dtype="int64")
        if axis in batching:
            along = tuple(batch[one] if one == batching[axis] else 1 for one in range(len(batch)))
            place = over_batch(gg.reshape(gg.arange(x.shape[axis]), along))
        if axis in numbers.start_index_map:
            start = indices[..., numbers.start_index_map.index(axis)].astype("int64")
            last = x.shape[axis] - size
            fits = over_batch((start >= 0) & (start <= last))
            inside = fits if inside is None else inside & fits
            place = over_batch(gg.clip(start, 0, last))
        if axis not in gone:
            out = next(offsets)
            along = tuple(size if one == out else 1 for one in range(len(shape)))
            place = place + gg.reshape(gg.arange(size), along)
        places.append(place)
    found = gg.broadcast_to(x[tuple(places)], shape)
    if inside is None or "FILL" not in str(call["mode"]).upper():
        return found
    blank: Any = call["fill_value"]
    if blank is None:
        blank = {"f": math.nan, "i": np.iinfo(np.int32).min, "b": True}[found.dtype.kind]
    return gg.where(gg.broadcast_to(inside, shape), found, blank)


def _scatter(function: str) -> Handler:
    def handle(call: Call) -> Array:
        x, indices, updates = call.operands
        numbers = call["dimension_numbers"]
        inserted, mapped = numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims
        if numbers.operand_batching_dims or tuple(sorted(mapped)) != tuple(sorted(inserted)):
            raise call.refused("it puts boxes at places", "Use x.at[i].add with whole slices.")
        outer = [n for n in range(updates.ndim) if n not in numbers.update_window_dims]
        rest = [axis for axis in range(x.ndim) if axis not in inserted]
        rows = gg.permute_dims(updates, (*outer, *numbers.update_window_dims))
        extents = [x.shape[axis] for axis in mapped]
        flat: Any = gg.zeros(indices.shape[:-1], dtype="int64")
        inside: Any = gg.full(indices.shape[:-1], True)
        for number, extent in enumerate(extents):
            place = indices[..., number].astype("int64")
            inside = inside & (place >= 0) & (place < extent)
            flat = flat + place * math.prod(extents[number + 1 :])
        count = math.prod(extents)
        # What is outside is dropped: it goes to one row more, which is cut off again.
        flat = gg.reshape(gg.where(inside, flat, count), (-1,))
        turned = gg.permute_dims(x, (*mapped, *rest))
        tail = tuple(x.shape[axis] for axis in rest)
        line = gg.reshape(turned, (count, *tail))
        line = gg.concat([line, gg.zeros((1, *tail), dtype=x.dtype)], axis=0)
        given = gg.reshape(rows, (flat.size, *tail))
        found = _apply(call, "scatter", line, flat, given, axis=0, function=function)[:count]
        whole = gg.reshape(found, turned.shape)
        order = [*mapped, *rest]
        return gg.permute_dims(whole, tuple(order.index(axis) for axis in range(x.ndim)))

    return handle


def _conv(call: Call) -> Array:
    x, kernel = call.operands
    if call["batch_group_count"] != 1:
        raise call.refused("it has groups of examples", "Use feature groups.")
    numbers = call["dimension_numbers"]
    data = gg.permute_dims(x, tuple(numbers.lhs_spec))
    weights = gg.permute_dims(kernel, tuple(numbers.rhs_spec))
    low, high = zip(*call["padding"], strict=True)
    found = _apply(
        call, "conv", data, weights, stride=tuple(call["window_strides"]), low=tuple(low),
        high=tuple(high), between=tuple(n - 1 for n in call["lhs_dilation"]),
        dilation=tuple(call["rhs_dilation"]), groups=call["feature_group_count"],
    )  # fmt: skip
    order = tuple(numbers.out_spec)
    return gg.permute_dims(found, tuple(order.index(axis) for axis in range(len(order))))


def _window(function: str) -> Handler:
    def handle(call: Call) -> Array:
        x, window = call.array(0), call["window_dimensions"]
        if any(n != 1 for n in call["base_dilation"]):
            raise call.refused("its data are dilated", "Pool the data themselves.")
        pads, strides = call["padding"], call["window_strides"]
        used = [
            axis for axis in range(x.ndim)
            if window[axis] != 1 or strides[axis] != 1 or tuple(pads[axis]) != (0, 0)
        ] or [x.ndim - 1]  # fmt: skip
        order = [axis for axis in range(x.ndim) if axis not in used] + used
        found = _apply(
            call, "pool", gg.permute_dims(x, tuple(order)), function=function,
            window=tuple(window[axis] for axis in used),
            stride=tuple(strides[axis] for axis in used),
            dilation=tuple(call["window_dilation"][axis] for axis in used),
            low=tuple(pads[axis][0] for axis in used), high=tuple(pads[axis][1] for axis in used),
        )  # fmt: skip
        return gg.permute_dims(found, tuple(order.index(axis) for axis in range(x.ndim)))

    return handle


HANDLERS: Final[dict[str, Handler]] = {
    "argmax": _arg(gg.argmax),
    "argmin": _arg(gg.argmin),
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "conv_general_dilated": _conv,
    "cummax": _scan("max"),
    "cummin": _scan("min"),
    "cumprod": _scan("prod"),
    "cumsum": _scan("sum"),
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "expand_dims": _reshape,
    "gather": _gather,
    "iota": _iota,
    "pad": _pad,
    "reduce_and": _reduction(gg.all),
    "reduce_max": _reduction(gg.max),
    "reduce_min": _reduction(gg.min),
    "reduce_or": _reduction(gg.any),
    "reduce_prod": _reduction(gg.prod),
    "reduce_sum": _reduction(gg.sum),
    "reduce_window_max": _window("max"),
    "reduce_window_sum": _window("sum"),
    "reshape": _reshape,
    "rev": lambda call: gg.flip(call.array(0), axis=tuple(call["dimensions"])),
    "scatter": _scatter("set"),
    "scatter-add": _scatter("add"),
    "scatter_add": _scatter("add"),
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "squeeze": _reshape,
    "top_k": _top_k,
    "transpose": lambda call: Array(
        shaping.permute(call.array(0).value, tuple(call["permutation"]), call.place)
    ),
}
"""Primitive -> its handler."""
