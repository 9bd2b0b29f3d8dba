"""The operator `reduce`: sum, mean, prod, max, min, any, all over axes. Owns: its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from gpugoblin.catalog.building import call, expression, number, reduced, reshaped, spread
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rounding import (
    REDUCE_BLOCK,
    chain,
    finite_part,
    format_of,
    gamma,
    guard_overflow,
    with_flush,
)
from gpugoblin.catalog.rules import (
    bool_attribute,
    ints_attribute,
    moved,
    require_dtype,
    text_attribute,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    FLOATS,
    NUMBERS,
    Array,
    Attribute,
    Attributes,
    Builder,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS", "REDUCE"]

Combine = Literal["", "add", "multiply", "maximum", "minimum", "or", "and"]

_ACCEPTED: Final = {
    "sum": NUMBERS,
    "mean": FLOATS,
    "prod": NUMBERS,
    "max": NUMBERS,
    "min": NUMBERS,
    "any": ("bool",),
    "all": ("bool",),
}
_COMBINE: Final[dict[str, Combine]] = {
    "sum": "add",
    "mean": "",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "or",
    "all": "and",
}


def _axes(attributes: Attributes) -> tuple[int, ...]:
    return ints_attribute(attributes, "axes")


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec, axes = inputs[0], _axes(attributes)
    function = text_attribute(attributes, "function")
    require_dtype(f"reduce with {function}", spec, _ACCEPTED[function])
    if list(axes) != sorted(set(axes)) or any(not 0 <= axis < spec.rank for axis in axes):
        raise GraphError(
            "attribute_invalid",
            operator="reduce",
            attribute="axes",
            value=axes,
            reason=f"rising axes from 0 to {spec.rank - 1} are wanted",
        )
    if function in ("max", "min") and any(spec.shape[axis] == 0 for axis in axes):
        raise GraphError("empty_reduction", operator="reduce", function=function, shape=spec.shape)
    keep = bool_attribute(attributes, "keepdims")
    shape = tuple(
        1 if axis in axes else extent
        for axis, extent in enumerate(spec.shape)
        if keep or axis not in axes
    )
    return (TensorSpec(spec.dtype, shape),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    # An engine holds an accumulator and one block's partial results beside the output.
    return moved(inputs, outputs, inputs[0].count, 2 * outputs[0].nbytes)


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    array, axes = inputs[0], _axes(attributes)
    function = text_attribute(attributes, "function")
    keep = bool_attribute(attributes, "keepdims")
    wide = array.astype(np.float64) if array.dtype.kind == "f" else array
    # NumPy adds along some axes in one chain: float64 itself needs more digits for that.
    added = np.longdouble if array.dtype == np.float64 else wide.dtype
    with np.errstate(all="ignore"):
        match function:
            case "sum":
                result = np.sum(wide, axis=axes, keepdims=keep, dtype=added)
            case "mean":
                # Not numpy.mean, which warns about an empty slice: 0 / 0 is NaN.
                count = np.float64(_count(array.shape, axes))
                result = np.sum(wide, axis=axes, keepdims=keep, dtype=added) / count
            case "prod":
                result = np.prod(wide, axis=axes, keepdims=keep, dtype=wide.dtype)
            case "max":
                result = np.max(wide, axis=axes, keepdims=keep)
            case "min":
                result = np.min(wide, axis=axes, keepdims=keep)
            case "any":
                result = np.any(wide, axis=axes, keepdims=keep)
            case _:
                result = np.all(wide, axis=axes, keepdims=keep)
        return (np.asarray(result).astype(array.dtype),)


def _count(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    """Kept axes are parallel. Summed ones are combined, but for mean: `graph.rewrite` turns a mean
    into a sum and a division, which can be cut."""
    axes = _axes(attributes)
    keep = bool_attribute(attributes, "keepdims")
    combine = _COMBINE[text_attribute(attributes, "function")]
    splits: list[Split] = []
    place = 0
    for axis in range(inputs[0].rank):
        if axis not in axes:
            splits.append(Split(f"i{axis}", "parallel", (axis,), place))
        elif combine:
            splits.append(Split(f"i{axis}", "sum", (axis,), None, combine=combine))
        else:
            splits.append(Split(f"i{axis}", "whole", (axis,), None))
        place += keep or axis not in axes
    return tuple(splits)


def _error(array: Array, error: Array | None, attributes: Attributes) -> Array | None:
    axes, keep = _axes(attributes), bool_attribute(attributes, "keepdims")
    function = text_attribute(attributes, "function")
    if function in ("sum", "mean", "prod"):
        if array.dtype.kind != "f" and error is None:
            return None
        loose = np.broadcast_to(0.0 if error is None else error, array.shape)
        if function == "prod":
            return _prod_error(array, loose, axes, keep)
        return _sum_error(array, loose, axes, keep, mean=function == "mean")
    error = with_flush(array, error)
    if error is None:
        return None
    loose = np.broadcast_to(error, array.shape)
    if function in ("max", "min"):
        return np.asarray(np.max(loose, axis=axes, keepdims=keep))
    # A bool is open where the open elements decide.
    low, high = array & ~(loose > 0), array | (loose > 0)
    fold = np.any if function == "any" else np.all
    decided = fold(low, axis=axes, keepdims=keep) == fold(high, axis=axes, keepdims=keep)
    return np.where(decided, 0.0, 1.0)


def _sum_error(
    array: Array, loose: Array, axes: tuple[int, ...], keep: bool, *, mean: bool
) -> Array:
    """gamma(chain(n)) times the sum of absolute values (Higham, section 4.2), and the carried
    errors; flushes add 2^-126 each; u for the rounding of the reference."""
    count = _count(array.shape, axes)
    with np.errstate(all="ignore"):
        carried = np.sum(loose, axis=axes, keepdims=keep)
        size = np.sum(np.abs(finite_part(array)), axis=axes, keepdims=keep) + carried
        if array.dtype.kind != "f":
            return np.where(size >= 2.0 ** (8 * array.dtype.itemsize - 1), np.inf, carried)
        form = format_of([array])
        share = gamma(chain(count, REDUCE_BLOCK), form) + 2 * form.unit
        own = share * size + 2 * (count + 1) * form.tiny
        error = guard_overflow(size, carried + own, form)
        return error / max(count, 1) + 8 * form.unit * size / max(count, 1) if mean else error


def _prod_error(array: Array, loose: Array, axes: tuple[int, ...], keep: bool) -> Array:
    """gamma(n) of the product; anything where the order decides about overflow, and 2^-126 times
    the largest partial product where it decides about underflow."""
    count = _count(array.shape, axes)
    if array.dtype.kind != "f":
        exact = np.all(loose == 0, axis=axes, keepdims=keep)
        return np.where(exact, 0.0, np.inf)
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(array), np.abs(array), 1.0).astype(np.float64)
        product = np.prod(size, axis=axes, keepdims=keep)
        widest = np.prod(size + loose, axis=axes, keepdims=keep)
        partial = np.prod(np.maximum(size + loose, 1.0), axis=axes, keepdims=keep)
        form = format_of([array])
        own = (gamma(count, form) + form.unit) * widest + (count + 1) * form.tiny * partial
        error = widest - product + own
        error = np.where(np.isnan(error), np.inf, error)
        return guard_overflow(partial, error, form)


def _absolute(inputs: Sequence[Array], attributes: Attributes) -> Array | float:
    error = _error(inputs[0], None, attributes)
    return 0.0 if error is None else error


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    return (_error(inputs[0], errors[0], attributes),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,), (value,) = seeds, inputs
    function, axes = text_attribute(attributes, "function"), _axes(attributes)
    spec = builder.spec(value)
    if seed is None or function in ("any", "all"):
        return (None,)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(spec.shape))
    seed = reshaped(builder, seed, kept)
    match function:
        case "sum":
            return (spread(builder, seed, spec.shape),)
        case "mean":
            count = number(builder, max(1, _count(spec.shape, axes)), spec.dtype)
            return (spread(builder, call(builder, "div", seed, count), spec.shape),)
        case "prod":
            return (_prod_grad(builder, value, seed, axes),)
    # max, min: equal extremes share the seed.
    result = reshaped(builder, outputs[0], kept)
    zero, one = (number(builder, value, spec.dtype) for value in (0.0, 1.0))
    chosen = call(builder, "where", call(builder, "eq", value, result), one, zero)
    ties = reduced(builder, "sum", chosen, axes)
    return (expression(builder, [chosen, seed, ties], _share),)


def _share(build: FormulaBuilder, chosen: int, seed: int, ties: int) -> int:
    return build.call("mul", chosen, build.call("div", seed, ties))


def _prod_grad(builder: Builder, value: int, seed: int, axes: tuple[int, ...]) -> int:
    """The product as a tree of halves, and back through it: right where factors are 0, in as many
    multiplications, and again differentiable. A division by the factor is neither."""
    shape = builder.spec(value).shape
    others = tuple(axis for axis in range(len(shape)) if axis not in axes)
    turned = builder.add("permute", [value], axes=(*axes, *others))
    rest = tuple(shape[axis] for axis in others)
    level = reshaped(builder, turned, (_count(shape, axes), *rest))
    levels = []
    while (extent := builder.spec(level).shape[0]) > 1:
        left, right, odd = _halves(builder, level, extent)
        levels.append((left, right, odd is not None))
        parts = [call(builder, "mul", left, right), *([] if odd is None else [odd])]
        level = builder.add("concat", parts, axis=0) if len(parts) > 1 else parts[0]
    share = reshaped(builder, seed, (1, *rest))
    if _count(shape, axes) == 0:
        share = _rows(builder, share, 0, 0)
    for left, right, has_odd in reversed(levels):
        half = builder.spec(left).shape[0]
        upper = _rows(builder, share, 0, half)
        parts = [call(builder, "mul", upper, right), call(builder, "mul", upper, left)]
        if has_odd:
            parts.append(_rows(builder, share, half, half + 1))
        share = builder.add("concat", parts, axis=0)
    share = reshaped(builder, share, builder.spec(turned).shape)
    back = (*axes, *others)
    return builder.add("permute", [share], axes=tuple(back.index(n) for n in range(len(shape))))


def _halves(builder: Builder, level: int, extent: int) -> tuple[int, int, int | None]:
    half = extent // 2
    odd = _rows(builder, level, 2 * half, extent) if extent % 2 else None
    return _rows(builder, level, 0, half), _rows(builder, level, half, 2 * half), odd


def _rows(builder: Builder, value: int, start: int, stop: int) -> int:
    shape = builder.spec(value).shape
    if (start, stop) == (0, shape[0]):
        return value
    first = (start, *(0,) * (len(shape) - 1))
    last = (stop, *shape[1:])
    return builder.add("slice", [value], start=first, stop=last, step=(1,) * len(shape))


REDUCE: Final = Operator(
    name="reduce",
    version=1,
    arity=(1, 1),
    attributes=(
        Attribute("axes", "ints"),
        Attribute("function", "choice", choices=tuple(_ACCEPTED)),
        Attribute("keepdims", "bool", required=False, default=False),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(absolute=_absolute, propagate=_propagate),
    samples=(
        sample("sum", normal(4, 5, 6), axes=(0, 2), function="sum"),
        sample("sum_long", normal(3000, 2, scale=100.0), axes=(0,), function="sum"),
        sample("mean", normal(4, 5), axes=(1,), function="mean", keepdims=True),
        sample("mean_empty", normal(2, 0), axes=(1,), function="mean"),
        sample("prod", normal(3, 6), axes=(1,), function="prod"),
        sample("max", normal(3, 6), axes=(0,), function="max"),
        sample("min", normal(3, 6), axes=(0, 1), function="min", keepdims=True),
        sample("sum_empty", normal(0, 3), axes=(0,), function="sum"),
        sample("size_1", normal(1), axes=(0,), function="max"),
        sample("no_axes", normal(3), axes=(), function="sum"),
        sample("strided", strided(normal(4, 5)), axes=(1,), function="sum"),
        sample("special_sum", special(5, 5), axes=(1,), function="sum"),
        sample("special_max", special(5, 5), axes=(1,), function="max"),
        sample("any", truth(3, 4), axes=(1,), function="any"),
        sample("all", truth(3, 2), axes=(1,), function="all"),
        sample("wrap", ints(9, low=2**30, high=2**31 - 1), axes=(0,), function="sum"),
        sample("int64", ints(3, 5, dtype="int64"), axes=(0,), function="prod"),
    ),
    summary="sum, mean, prod, max, min, any or all over axes. NaN propagates; integers wrap; max "
    "and min of nothing is an error, the mean of nothing is NaN.",
    grad=_grad,
)

OPERATORS: Final = (REDUCE,)
