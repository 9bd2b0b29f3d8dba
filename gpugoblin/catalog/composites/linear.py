"""Inverse, least squares and norms, by factorizations. Owns: their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.along import take_along
from gpugoblin.catalog.building import call, expression, reduced, reshaped, spread
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.matrices import require_square
from gpugoblin.catalog.matrix_building import identity, product, times, turned
from gpugoblin.catalog.matrix_samples import broken, dominant, ramp
from gpugoblin.catalog.rules import (
    bool_attribute,
    ints_attribute,
    require_dtype,
    require_rank,
    same_dtype,
    shapes_error,
    text_attribute,
)
from gpugoblin.catalog.samples import Make, normal, sample, special, strided
from gpugoblin.catalog.spec import FLOATS, Array, Attribute, Attributes, Builder, TensorSpec
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS"]


def _require_square(name: str, inputs: Sequence[TensorSpec]) -> None:
    require_rank(name, inputs[0], 2)
    require_dtype(name, inputs[0], FLOATS)
    require_square(name, inputs)


def _require_right(name: str, factor: TensorSpec, right: TensorSpec) -> None:
    require_rank(name, factor, 2)
    require_rank(name, right, 2)
    same_dtype(name, [factor, right], FLOATS)
    if factor.shape[:-1] != right.shape[:-1]:
        raise shapes_error(name, [factor, right], "right sides with the matrices' rows are wanted")


# the inverse


def _inverse(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    return (builder.add("solve", [inputs[0], identity(builder, inputs[0])], transpose=False),)


# systems


def _require_lu_solve(inputs: Sequence[TensorSpec], given: Attributes) -> None:
    _require_square("lu_solve", inputs)
    _require_right("lu_solve", inputs[0], inputs[2])
    if inputs[1].dtype != "int64" or inputs[1].shape != inputs[0].shape[:-1]:
        raise shapes_error("lu_solve", inputs, "the second must be the order of rows that lu gives")


def _lu_solve(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    both, order, right = inputs
    shape = builder.spec(right).shape
    places = spread(builder, reshaped(builder, order, (*shape[:-1], 1)), shape)
    ordered = take_along(builder, right, places, len(shape) - 2)
    found = builder.add("triangular_solve", [both, ordered], lower=True, unit_diagonal=True)
    return (builder.add("triangular_solve", [both, found], lower=False),)


def _lstsq(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    value, right = inputs
    rows, columns = builder.spec(value).shape[-2:]
    if rows >= columns:
        q, r = builder.add_many("qr", [value])
        seen = product(builder, q, right, True)
        return (builder.add("triangular_solve", [r, seen], lower=False),)
    q, r = builder.add_many("qr", [turned(builder, value)])
    least = builder.add("triangular_solve", [r, right], lower=False, transpose=True)
    return (product(builder, q, least),)


# norms


def _require_norm(inputs: Sequence[TensorSpec], given: Attributes) -> None:
    require_dtype("vector_norm", inputs[0], FLOATS)
    axes, rank = ints_attribute(given, "axes"), inputs[0].rank
    if not axes or list(axes) != sorted(set(axes)) or not 0 <= axes[0] <= axes[-1] < rank:
        raise GraphError(
            "attribute_invalid",
            operator="vector_norm",
            attribute="axes",
            value=axes,
            reason=f"rising axes from 0 to {rank - 1} are wanted, one or more",
        )


def _norm(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    axes, keep = ints_attribute(given, "axes"), bool_attribute(given, "keepdims")
    order = text_attribute(given, "order")
    if order == "2":
        square = times(builder, inputs[0], inputs[0])
        return (call(builder, "sqrt", reduced(builder, "sum", square, axes, keepdims=keep)),)
    size = call(builder, "abs", inputs[0])
    function = {"1": "sum", "inf": "max", "-inf": "min"}[order]
    return (reduced(builder, function, size, axes, keepdims=keep),)


def _norm_grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    given: Attributes,
) -> tuple[int | None, ...]:
    """x / |x| for order 2, and 0 where that is 0; of the extremes equal ones share the seed."""
    axes, order = ints_attribute(given, "axes"), text_attribute(given, "order")
    spec = builder.spec(inputs[0])
    if seeds[0] is None:
        return (None,)
    line = [1 if axis in axes else extent for axis, extent in enumerate(spec.shape)]
    seed, norm = (reshaped(builder, one, line) for one in (seeds[0], outputs[0]))

    def unit(build: FormulaBuilder, x: int, seed: int, norm: int) -> int:
        none, one = build.const(spec.dtype, 0.0), build.const(spec.dtype, 1.0)
        zero = build.call("eq", norm, none)
        found = build.call("div", x, build.call("where", zero, one, norm))
        return build.call("mul", seed, build.call("where", zero, none, found))

    if order == "2":
        return (expression(builder, [inputs[0], seed, norm], unit),)
    if order == "1":
        return (times(builder, spread(builder, seed, spec.shape), _sign(builder, inputs[0])),)

    def extreme(build: FormulaBuilder, x: int, norm: int) -> int:
        return build.cast(build.call("eq", build.call("abs", x), norm), spec.dtype)

    chosen = expression(builder, [inputs[0], norm], extreme)
    share = call(builder, "div", seed, reduced(builder, "sum", chosen, axes))
    return (times(builder, times(builder, chosen, _sign(builder, inputs[0])), share),)


def _sign(builder: Builder, value: int) -> int:
    return call(builder, "sign", value)


def _order(*shape: int) -> Make:
    """Orders of rows that lu could have given: each row's own."""

    def make(generator: np.random.Generator) -> Array:
        return generator.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)

    return make


_ORDERS: Final = ("2", "1", "inf", "-inf")

OPERATORS: Final = (
    composite(
        "inverse",
        (1, 1),
        (),
        lambda inputs, given: _require_square("inverse", inputs),
        _inverse,
        (
            sample("plain", dominant(4, 4)),
            sample("batch", dominant(2, 3, 3, 3)),
            sample("empty", normal(0, 3, 3)),
            sample("size_1", normal(1, 1)),
            sample("strided", strided(dominant(3, 3))),
            sample("special", broken(dominant(3, 3, 3))),
        ),
        "The inverse of square matrices; all of it is NaN where a matrix is singular or not "
        "finite.",
    ),
    composite(
        "lu_solve",
        (3, 3),
        (),
        _require_lu_solve,
        _lu_solve,
        (
            sample("plain", dominant(3, 3), _order(3), normal(3, 2)),
            sample("batch", dominant(2, 4, 4), _order(2, 4), normal(2, 4, 1)),
            sample("empty", normal(0, 3, 3), _order(0, 3), normal(0, 3, 2)),
            sample("size_1", normal(1, 1), _order(1), normal(1, 1)),
            sample("strided", strided(dominant(3, 3)), _order(3), strided(normal(3, 2))),
            sample("special", broken(dominant(2, 3, 3)), _order(2, 3), normal(2, 3, 1)),
        ),
        "The solution X of A X = B from what lu gives for A: both triangles in one matrix, and the "
        "order of the rows. Inputs: factors, order, B.",
    ),
    composite(
        "lstsq",
        (2, 2),
        (),
        lambda inputs, given: _require_right("lstsq", *inputs),
        _lstsq,
        (
            sample("tall", ramp(5, 3), normal(5, 2)),
            sample("square", ramp(3, 3), normal(3, 2)),
            sample("wide", ramp(3, 5), normal(3, 2)),
            sample("batch", ramp(2, 4, 2), normal(2, 4, 1)),
            sample("empty", normal(0, 3, 2), normal(0, 3, 1)),
            sample("size_1", normal(1, 1), normal(1, 1)),
            sample("strided", strided(ramp(4, 3)), strided(normal(4, 2))),
            sample("special", broken(ramp(2, 3, 3)), normal(2, 3, 1)),
        ),
        "The X with the least |A X - B| for matrices of full rank, by QR; of all of them the "
        "shortest where A has more columns than rows.",
    ),
    composite(
        "vector_norm",
        (1, 1),
        (
            Attribute("axes", "ints"),
            Attribute("keepdims", "bool", required=False, default=False),
            Attribute("order", "choice", required=False, default="2", choices=_ORDERS),
        ),
        _require_norm,
        _norm,
        (
            sample("rows", normal(3, 5), axes=(1,)),
            sample("all", normal(3, 4), axes=(0, 1), keepdims=True),
            sample("sum", normal(3, 4), axes=(0,), order="1"),
            sample("largest", normal(3, 4), axes=(1,), order="inf"),
            sample("smallest", normal(3, 4), axes=(1,), order="-inf", keepdims=True),
            sample("empty", normal(0, 3), axes=(0,)),
            sample("size_1", normal(1), axes=(0,)),
            sample("strided", strided(normal(3, 5)), axes=(1,)),
            sample("special", special(3, 6), axes=(1,)),
        ),
        "The norm of the elements along axes: the root of the sum of their squares (order 2), the "
        "sum (1), the largest (inf) or the smallest (-inf) of their magnitudes.",
        _norm_grad,
    ),
)
