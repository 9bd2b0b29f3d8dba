"""matrix_exp: the exponential of square matrices. Owns: its declaration.

By scaling and squaring with the Padé approximant of degree 13 (N. J. Higham, The scaling and
squaring method for the matrix exponential revisited, SIAM J. Matrix Anal. Appl. 26, 2005): a matrix
is halved until its 1-norm is at most 5.25, and the result squared as often. How often is a matter
of its values, so all squarings that may be needed are there, and each acts on what needs it; a
1-norm above 5.25 * 2^16 would overflow in any case but for negative matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import call, expression, reduced
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.matrices import require_square
from gpugoblin.catalog.matrix_building import identity, product
from gpugoblin.catalog.matrix_samples import broken
from gpugoblin.catalog.rules import require_dtype, require_rank
from gpugoblin.catalog.samples import normal, sample, strided
from gpugoblin.catalog.spec import FLOATS, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS"]

_LARGEST: Final = 5.25
"""A number that float32 has, below the 5.37 of the paper."""

_SQUARINGS: Final = 16

_DEGREE: Final = 13


def _require(inputs: Sequence[TensorSpec], given: Attributes) -> None:
    require_rank("matrix_exp", inputs[0], 2)
    require_dtype("matrix_exp", inputs[0], FLOATS)
    require_square("matrix_exp", inputs)


def _coefficients(build: FormulaBuilder, dtype: str) -> list[int]:
    """Those of the approximant, the first as 1: each is the one before it times (d - j) over
    (2 d - j) (j + 1), made of whole numbers, so that no constant is rounded."""
    found = [build.const(dtype, 1.0)]
    for place in range(_DEGREE):
        above = build.const(dtype, _DEGREE - place)
        below = build.const(dtype, (2 * _DEGREE - place) * (place + 1))
        found.append(build.call("mul", found[-1], build.call("div", above, below)))
    return found


def _combined(builder: Builder, powers: Sequence[int], degrees: Sequence[int]) -> int:
    """The sum of powers times their coefficients."""
    dtype = builder.spec(powers[0]).dtype

    def write(build: FormulaBuilder, *operands: int) -> int:
        found = _coefficients(build, dtype)
        terms = [
            build.call("mul", operand, found[degree])
            for operand, degree in zip(operands, degrees, strict=True)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = build.call("add", total, term)
        return total

    return expression(builder, powers, write)


def _approximated(builder: Builder, value: int) -> int:
    """The approximant: (V - U)^-1 (V + U), U of the odd powers and V of the even ones."""
    one = identity(builder, value)
    second = product(builder, value, value)
    fourth = product(builder, second, second)
    sixth = product(builder, second, fourth)
    high, low = [sixth, fourth, second], [sixth, fourth, second, one]
    odd = call(
        builder,
        "add",
        product(builder, sixth, _combined(builder, high, (13, 11, 9))),
        _combined(builder, low, (7, 5, 3, 1)),
    )
    odd = product(builder, value, odd)
    even = call(
        builder,
        "add",
        product(builder, sixth, _combined(builder, high, (12, 10, 8))),
        _combined(builder, low, (6, 4, 2, 0)),
    )
    sides = call(builder, "sub", even, odd), call(builder, "add", even, odd)
    return builder.add("solve", sides, transpose=False)


def _chosen(builder: Builder, norm: int, step: int, yes: int, no: int | None) -> int:
    """`yes` where the norm is above the limit of a step, else `no` (0 where None)."""
    dtype = builder.spec(yes).dtype

    def write(build: FormulaBuilder, size: int, first: int, *rest: int) -> int:
        large = build.call("gt", size, build.const(dtype, _LARGEST * 2.0**step))
        return build.call("where", large, first, *(rest or (build.const(dtype, 0.0),)))

    return expression(builder, [norm, yes, *([] if no is None else [no])], write)


def _halved(builder: Builder, norm: int, value: int) -> int:
    dtype = builder.spec(value).dtype

    def write(build: FormulaBuilder, size: int, x: int) -> int:
        half, one = build.const(dtype, 0.5), build.const(dtype, 1.0)
        for step in range(_SQUARINGS):
            large = build.call("gt", size, build.const(dtype, _LARGEST * 2.0**step))
            x = build.call("mul", x, build.call("where", large, half, one))
        return x

    return expression(builder, [norm, value], write)


def _matrix_exp(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    (value,) = inputs
    spec = builder.spec(value)
    if not spec.shape[-1]:
        return (call(builder, "neg", value),)
    columns = reduced(builder, "sum", call(builder, "abs", value), (spec.rank - 2,))
    norm = reduced(builder, "max", columns, (spec.rank - 1,))
    found = _approximated(builder, _halved(builder, norm, value))
    for step in range(_SQUARINGS):
        # Zeros in the place of what is done: its squares could overflow, and so could derivatives.
        active = _chosen(builder, norm, step, found, None)
        found = _chosen(builder, norm, step, product(builder, active, active), found)
    return (found,)


OPERATORS: Final = (
    composite(
        "matrix_exp",
        (1, 1),
        (),
        _require,
        _matrix_exp,
        (
            sample("plain", normal(4, 4, scale=0.3)),
            sample("squared", normal(3, 3, scale=4.0)),
            sample("batch", normal(2, 3, 2, 2)),
            sample("empty", normal(0, 3, 3)),
            sample("no_rows", normal(0, 0)),
            sample("size_1", normal(1, 1)),
            sample("strided", strided(normal(3, 3))),
            sample("special", broken(normal(3, 3, 3))),
        ),
        "The exponential of square matrices, by scaling, a Padé approximant and squaring.",
    ),
)
