"""Matrices on a builder: what gradients and decompositions of linear algebra are written with.

Owns: nothing but wording. Must not: know any one operator's rule.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.catalog.building import call, expression, reduced, reshaped
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import Builder

__all__ = [
    "diagonal",
    "diagonal_matrix",
    "identity",
    "product",
    "row_line",
    "symmetric",
    "times",
    "triangle",
    "turned",
]

_KEEPS: Final = {"lower": "ge", "strict_lower": "gt", "upper": "le", "strict_upper": "lt"}


def _places(builder: Builder, rows: int, columns: int) -> tuple[int, int]:
    """The number of each row [rows, 1], and of each column [columns]."""
    down = builder.add("iota", [], count=rows, dtype="int64")
    return reshaped(builder, down, (rows, 1)), builder.add("iota", [], count=columns, dtype="int64")


def triangle(builder: Builder, value: int, part: str) -> int:
    """The matrices with zeros outside of a part: `lower`, `strict_lower`, `upper`, `strict_upper`;
    these have the diagonal unless they are strict."""
    spec = builder.spec(value)

    def write(build: FormulaBuilder, x: int, row: int, column: int) -> int:
        kept = build.call(_KEEPS[part], row, column)
        return build.call("where", kept, x, build.const(spec.dtype, 0.0))

    return expression(builder, [value, *_places(builder, *spec.shape[-2:])], write)


def diagonal_matrix(builder: Builder, line: int) -> int:
    """Square matrices with the last axis of `line` on the diagonal and zeros beside it."""
    spec = builder.spec(line)
    extent = spec.shape[-1]

    def write(build: FormulaBuilder, x: int, row: int, column: int) -> int:
        return build.call("where", build.call("eq", row, column), x, build.const(spec.dtype, 0.0))

    return expression(builder, [row_line(builder, line), *_places(builder, extent, extent)], write)


def diagonal(builder: Builder, value: int) -> int:
    """The diagonals of square matrices, as the last axis."""
    spec = builder.spec(value)

    def write(build: FormulaBuilder, x: int, row: int, column: int) -> int:
        return build.call("where", build.call("eq", row, column), x, build.const(spec.dtype, 0.0))

    alone = expression(builder, [value, *_places(builder, *spec.shape[-2:])], write)
    return reduced(builder, "sum", alone, (spec.rank - 1,), keepdims=False)


def identity(builder: Builder, value: int) -> int:
    """Identity matrices of the shape and dtype of `value`, whatever is in it."""
    spec = builder.spec(value)

    def write(build: FormulaBuilder, row: int, column: int) -> int:
        one, none = build.const(spec.dtype, 1.0), build.const(spec.dtype, 0.0)
        return build.call("where", build.call("eq", row, column), one, none)

    alone = expression(builder, _places(builder, *spec.shape[-2:]), write)
    return builder.add("broadcast", [alone], shape=spec.shape) if spec.rank > 2 else alone


def turned(builder: Builder, value: int) -> int:
    """The transposed matrices."""
    rank = builder.spec(value).rank
    return builder.add("permute", [value], axes=(*range(rank - 2), rank - 1, rank - 2))


def product(
    builder: Builder, left: int, right: int, turn_left: bool = False, turn_right: bool = False
) -> int:
    """left @ right, either of them transposed first."""
    return builder.add("matmul", [left, right], transpose_a=turn_left, transpose_b=turn_right)


def symmetric(builder: Builder, value: int) -> int:
    """The symmetric part, (A + A^T) / 2."""

    def write(build: FormulaBuilder, x: int, y: int) -> int:
        half = build.const(builder.spec(value).dtype, 0.5)
        return build.call("mul", half, build.call("add", x, y))

    return expression(builder, [value, turned(builder, value)], write)


def row_line(builder: Builder, line: int) -> int:
    """[..., n] as rows [..., 1, n], which broadcast over the rows of a matrix."""
    shape = builder.spec(line).shape
    return reshaped(builder, line, (*shape[:-1], 1, shape[-1]))


def times(builder: Builder, left: int, right: int) -> int:
    """Elementwise product."""
    return call(builder, "mul", left, right)
