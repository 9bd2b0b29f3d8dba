"""The operator `scan_reduce`: running sums, products and extremes. Owns: its declaration.

As for `reduce`, a backend adds in nested blocks of at most 512 elements: within a block one after
the other, then what the blocks before it make together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpugoblin.catalog.along import scatter_along
from gpugoblin.catalog.building import call, expression, number, reshaped
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
    int_attribute,
    moved,
    parallel_axes,
    require_axis,
    require_dtype,
    require_rank,
    text_attribute,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided
from gpugoblin.catalog.spec import (
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

__all__ = ["OPERATORS", "SCAN_FUNCTIONS", "SCAN_REDUCE"]

SCAN_FUNCTIONS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec = inputs[0]
    require_dtype("scan_reduce", spec, NUMBERS)
    require_rank("scan_reduce", spec, 1)
    require_axis("scan_reduce", "axis", int_attribute(attributes, "axis"), spec.rank)
    return (spec,)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    return moved(inputs, outputs, 2 * inputs[0].count, inputs[0].nbytes + (1 << 20))


def _run(array: Array, attributes: Attributes, function: str) -> Array:
    axis, reverse = int_attribute(attributes, "axis"), bool_attribute(attributes, "reverse")
    turned = np.flip(array, axis) if reverse else array
    dtype: Any = array.dtype
    if function in ("max", "min"):
        result = SCAN_FUNCTIONS[function].accumulate(turned, axis=axis)
    else:
        result = SCAN_FUNCTIONS[function].accumulate(turned, axis=axis, dtype=dtype)
    return np.flip(result, axis) if reverse else result


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    array = inputs[0]
    # A scan is one chain: float64 itself needs more digits for that.
    more = np.longdouble if array.dtype == np.float64 else np.float64
    wide = array.astype(more) if array.dtype.kind == "f" else array
    with np.errstate(all="ignore"):
        result = _run(wide, attributes, text_attribute(attributes, "function"))
        return (np.array(result, array.dtype, order="C"),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    return parallel_axes(inputs[0].rank, whole=(int_attribute(attributes, "axis"),))


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """As for `reduce`, with running sums, products and extremes in the place of whole ones."""
    array, error = inputs[0], errors[0]
    function = text_attribute(attributes, "function")
    if function in ("max", "min"):
        error = with_flush(array, error)
    floating, form = array.dtype.kind == "f", format_of(inputs)
    if error is None and (function in ("max", "min") or not floating):
        return (None,)
    loose = np.broadcast_to(0.0 if error is None else error, array.shape).astype(np.float64)
    count = array.shape[int_attribute(attributes, "axis")]
    with np.errstate(all="ignore"):
        if function in ("max", "min"):
            return (_run(loose, attributes, "max"),)
        if function == "sum":
            carried = _run(loose, attributes, "sum")
            size = _run(np.abs(finite_part(array)), attributes, "sum") + carried
            if not floating:
                limit = 2.0 ** (8 * array.dtype.itemsize - 1)
                return (np.where((size >= limit) & (carried > 0), np.inf, carried),)
            # One addition a level joins a block to those before it.
            own = gamma(chain(count, REDUCE_BLOCK) + 4, form) * size + 2 * form.unit * size
            return (guard_overflow(size, carried + own + 2 * (count + 1) * form.tiny, form),)
        if not floating:
            return (np.where(_run(loose, attributes, "max") > 0, np.inf, 0.0),)
        plain = np.where(np.isfinite(array), np.abs(array), 1.0).astype(np.float64)
        product = _run(plain, attributes, "prod")
        widest = _run(plain + loose, attributes, "prod")
        partial = _run(np.maximum(plain + loose, 1.0), attributes, "prod")
        own = (gamma(count + 4, form) + form.unit) * widest + (count + 1) * form.tiny * partial
        found = widest - product + own
        return (guard_overflow(partial, np.where(np.isnan(found), np.inf, found), form),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    seed, axis = seeds[0], int_attribute(attributes, "axis")
    function, reverse = (
        text_attribute(attributes, "function"),
        bool_attribute(attributes, "reverse"),
    )
    if seed is None:
        return (None,)
    if function == "sum":
        turned = not reverse
        return (builder.add("scan_reduce", [seed], axis=axis, function="sum", reverse=turned),)
    value, result = inputs[0], outputs[0]
    if reverse:
        value, result, seed = (
            builder.add("flip", [one], axes=(axis,)) for one in (value, result, seed)
        )
    if function == "prod":
        found = _prod_grad(builder, value, seed, axis)
    else:
        found = _extreme_grad(builder, value, result, seed, axis)
    return (builder.add("flip", [found], axes=(axis,)) if reverse else found,)


def _extreme_grad(builder: Builder, value: int, result: int, seed: int, axis: int) -> int:
    """Each seed goes to the last element so far that equals the running extreme."""
    spec = builder.spec(value)
    extent = spec.shape[axis]
    line = (1,) * axis + (extent,) + (1,) * (spec.rank - axis - 1)
    places = reshaped(builder, builder.add("iota", [], count=extent), line)

    def pick(build: FormulaBuilder, x: int, extreme: int, place: int) -> int:
        return build.call("where", build.call("eq", x, extreme), place, build.const("int64", 0))

    reached = expression(builder, [value, result, places], pick)
    last = builder.add("scan_reduce", [reached], axis=axis, function="max")
    return scatter_along(builder, seed, last, axis, extent)


def _prod_grad(builder: Builder, value: int, seed: int, axis: int) -> int:
    """The running product by doubling (each element times the one 1, 2, 4, ... before it), and back
    through it: no division, so right where elements are 0, and again differentiable."""
    extent = builder.spec(value).shape[axis]
    levels: list[tuple[int, int, int]] = []
    level, step = value, 1
    while step < extent:
        tail = _part(builder, level, axis, step, extent)
        head = _part(builder, level, axis, 0, extent - step)
        levels.append((step, head, tail))
        parts = [_part(builder, level, axis, 0, step), call(builder, "mul", tail, head)]
        level = builder.add("concat", parts, axis=axis)
        step *= 2
    for step, head, tail in reversed(levels):
        first = _part(builder, seed, axis, 0, step)
        rest = _part(builder, seed, axis, step, extent)
        onto = builder.add("concat", [first, call(builder, "mul", rest, head)], axis=axis)
        back = _lengthened(builder, call(builder, "mul", rest, tail), axis, step)
        seed = call(builder, "add", onto, back)
    return seed


def _part(builder: Builder, value: int, axis: int, start: int, stop: int) -> int:
    shape = builder.spec(value).shape
    first = tuple(start if place == axis else 0 for place in range(len(shape)))
    last = tuple(stop if place == axis else extent for place, extent in enumerate(shape))
    return builder.add("slice", [value], start=first, stop=last, step=(1,) * len(shape))


def _lengthened(builder: Builder, value: int, axis: int, count: int) -> int:
    spec = builder.spec(value)
    rank, zero = spec.rank, number(builder, 0.0, spec.dtype)
    high = tuple(count if place == axis else 0 for place in range(rank))
    none = (0,) * rank
    return builder.add("pad", [value, zero], low=none, high=high, between=none)


SCAN_REDUCE: Final = Operator(
    name="scan_reduce",
    version=1,
    arity=(1, 1),
    attributes=(
        Attribute("axis", "int"),
        Attribute("function", "choice", choices=tuple(SCAN_FUNCTIONS)),
        Attribute("reverse", "bool", required=False, default=False),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("sum", normal(3, 7), axis=1, function="sum"),
        sample("sum_reverse", normal(7, 3), axis=0, function="sum", reverse=True),
        sample("sum_long", normal(2, 3000), axis=1, function="sum"),
        sample("prod", normal(2, 6), axis=1, function="prod"),
        sample("prod_reverse", normal(5, 2), axis=0, function="prod", reverse=True),
        sample("max", normal(3, 8), axis=1, function="max"),
        sample("min_reverse", normal(8, 2), axis=0, function="min", reverse=True),
        sample("empty", normal(0, 3), axis=0, function="sum"),
        sample("size_1", normal(1), axis=0, function="prod"),
        sample("strided", strided(normal(3, 5)), axis=1, function="sum"),
        sample("special", special(3, 6), axis=1, function="sum"),
        sample("special_max", special(3, 6), axis=1, function="max"),
        sample("wrap", ints(9, low=2**30, high=2**31 - 1), axis=0, function="sum"),
        sample("int64", ints(2, 5, dtype="int64"), axis=1, function="prod"),
    ),
    summary="The running sum, prod, max or min along an axis, from the first element or, with "
    "`reverse`, from the last. NaN propagates; integers wrap.",
    grad=_grad,
)

OPERATORS: Final = (SCAN_REDUCE,)
