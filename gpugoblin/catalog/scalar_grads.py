"""Derivatives of the scalar functions of `formula`, written in scalar functions.

Owns: one rule a function. A rule gets the operands, the result and the seed (the derivative of the
loss by the result) as nodes of a formula, and returns the derivative by each operand as a node, or
None where it is zero everywhere.

Where a function has no derivative, the rule gives what PyTorch gives: equal operands of `min` and
`max` share the seed, `abs` has 0 at 0, steps have 0 everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gpugoblin.catalog.scalar_grads_special import SPECIAL_GRADIENTS
from gpugoblin.catalog.terms import Emitter

__all__ = ["GRADIENTS", "Emitter", "ScalarGradient"]


ScalarGradient = Callable[[Emitter, Sequence[int], int, int], tuple[int | None, ...]]
"""(builder, operands, result, seed) -> one node an operand."""

_One = Callable[["_Writer", int, int], int]


class _Writer:
    """Short names for what rules write."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def number(self, value: float) -> int:
        return self._emitter.const(self._emitter.floating, value)

    def call(self, function: str, *operands: int) -> int:
        return self._emitter.call(function, *operands)

    def mul(self, *factors: int) -> int:
        product = factors[0]
        for factor in factors[1:]:
            product = self.call("mul", product, factor)
        return product

    def div(self, left: int, right: int) -> int:
        return self.call("div", left, right)

    def neg(self, value: int) -> int:
        return self.call("neg", value)

    def scaled(self, value: int, factor: float) -> int:
        return self.call("mul", value, self.number(factor))

    def one_plus(self, value: int) -> int:
        return self.call("add", value, self.number(1.0))

    def one_minus(self, value: int) -> int:
        return self.call("sub", self.number(1.0), value)

    def square(self, value: int) -> int:
        return self.call("mul", value, value)

    def where(self, condition: int, first: int, second: int) -> int:
        return self.call("where", condition, first, second)


def _slope(rule: _One) -> ScalarGradient:
    """For a function of one operand: the seed times `rule(writer, operand, result)`."""

    def gradient(
        emitter: Emitter, operands: Sequence[int], result: int, seed: int
    ) -> tuple[int | None, ...]:
        writer = _Writer(emitter)
        return (writer.mul(seed, rule(writer, operands[0], result)),)

    return gradient


def _over(rule: _One) -> ScalarGradient:
    """The same where the slope is 1 / `rule`: a quotient rounds once."""

    def gradient(
        emitter: Emitter, operands: Sequence[int], result: int, seed: int
    ) -> tuple[int | None, ...]:
        writer = _Writer(emitter)
        return (writer.div(seed, rule(writer, operands[0], result)),)

    return gradient


def _add(emitter: Emitter, operands: Sequence[int], result: int, seed: int) -> tuple[int, int]:
    return seed, seed


def _sub(emitter: Emitter, operands: Sequence[int], result: int, seed: int) -> tuple[int, int]:
    return seed, _Writer(emitter).neg(seed)


def _mul(emitter: Emitter, operands: Sequence[int], result: int, seed: int) -> tuple[int, int]:
    writer, (x, y) = _Writer(emitter), operands
    return writer.mul(seed, y), writer.mul(seed, x)


def _div(emitter: Emitter, operands: Sequence[int], result: int, seed: int) -> tuple[int, int]:
    writer, (_, y) = _Writer(emitter), operands
    return writer.div(seed, y), writer.neg(writer.mul(seed, writer.div(result, y)))


def _modulo(rounding: str) -> ScalarGradient:
    def gradient(
        emitter: Emitter, operands: Sequence[int], result: int, seed: int
    ) -> tuple[int | None, ...]:
        writer, (x, y) = _Writer(emitter), operands
        quotient = writer.call(rounding, writer.div(x, y))
        return seed, writer.neg(writer.mul(seed, quotient))

    return gradient


def _pow(emitter: Emitter, operands: Sequence[int], result: int, seed: int) -> tuple[int, int]:
    """y x^(y-1), 0 where y is 0; x^y log x, 0 where x is 0 and y is not negative."""
    writer, (x, y) = _Writer(emitter), operands
    zero = writer.number(0.0)
    lower = writer.call("pow", x, writer.call("sub", y, writer.number(1.0)))
    by_base = writer.where(writer.call("eq", y, zero), zero, writer.mul(seed, y, lower))
    flat = writer.call("and", writer.call("eq", x, zero), writer.call("ge", y, zero))
    by_exponent = writer.mul(seed, result, writer.call("log", x))
    return by_base, writer.where(flat, zero, by_exponent)


def _extremum(loses: str) -> ScalarGradient:
    """The seed goes to the operand that is not beaten; equal ones share it, as do NaNs."""

    def gradient(
        emitter: Emitter, operands: Sequence[int], result: int, seed: int
    ) -> tuple[int | None, ...]:
        writer, (x, y) = _Writer(emitter), operands
        zero = writer.number(0.0)
        shared = writer.where(writer.call("eq", x, y), writer.scaled(seed, 0.5), seed)
        return (
            writer.where(writer.call(loses, x, y), zero, shared),
            writer.where(writer.call(loses, y, x), zero, shared),
        )

    return gradient


def _atan2(emitter: Emitter, operands: Sequence[int], result: int, seed: int) -> tuple[int, int]:
    writer, (y, x) = _Writer(emitter), operands
    square = writer.call("add", writer.square(x), writer.square(y))
    share = writer.div(seed, square)
    return writer.mul(share, x), writer.neg(writer.mul(share, y))


def _where(
    emitter: Emitter, operands: Sequence[int], result: int, seed: int
) -> tuple[int | None, ...]:
    writer, zero = _Writer(emitter), emitter.const(emitter.floating, 0.0)
    condition = operands[0]
    return None, writer.where(condition, seed, zero), writer.where(condition, zero, seed)


def _flat(
    emitter: Emitter, operands: Sequence[int], result: int, seed: int
) -> tuple[int | None, ...]:
    return (None,) * len(operands)


def _neg(emitter: Emitter, operands: Sequence[int], result: int, seed: int) -> tuple[int]:
    return (_Writer(emitter).neg(seed),)


def _bell(w: _Writer, x: int, r: int) -> int:
    """2 / sqrt(pi) exp(-x^2)."""
    return w.scaled(w.call("exp", w.neg(w.square(x))), 2.0 / math.sqrt(math.pi))


def _arc(w: _Writer, x: int, r: int) -> int:
    """1 / sqrt(1 - x^2), as (1 - x)(1 + x), which does not cancel near 1."""
    return w.call("rsqrt", w.mul(w.one_minus(x), w.one_plus(x)))


_LN2: Final = math.log(2.0)
_LN10: Final = math.log(10.0)

GRADIENTS: Final[Mapping[str, ScalarGradient]] = MappingProxyType(
    {
        "add": _add,
        "sub": _sub,
        "mul": _mul,
        "div": _div,
        "mod": _modulo("floor"),
        "fmod": _modulo("trunc"),
        "pow": _pow,
        "min": _extremum("gt"),
        "max": _extremum("lt"),
        "atan2": _atan2,
        "where": _where,
        "neg": _neg,
        "abs": _slope(lambda w, x, r: w.call("sign", x)),
        "recip": _slope(lambda w, x, r: w.neg(w.square(r))),
        "sqrt": _over(lambda w, x, r: w.scaled(r, 2.0)),
        "rsqrt": _slope(lambda w, x, r: w.scaled(w.mul(r, w.square(r)), -0.5)),
        "exp": _slope(lambda w, x, r: r),
        "exp2": _slope(lambda w, x, r: w.scaled(r, _LN2)),
        "expm1": _slope(lambda w, x, r: w.call("exp", x)),
        "log": _over(lambda w, x, r: x),
        "log2": _over(lambda w, x, r: w.scaled(x, _LN2)),
        "log10": _over(lambda w, x, r: w.scaled(x, _LN10)),
        "log1p": _over(lambda w, x, r: w.one_plus(x)),
        "sin": _slope(lambda w, x, r: w.call("cos", x)),
        "cos": _slope(lambda w, x, r: w.neg(w.call("sin", x))),
        "tan": _slope(lambda w, x, r: w.one_plus(w.square(r))),
        "asin": _slope(_arc),
        "acos": _slope(lambda w, x, r: w.neg(_arc(w, x, r))),
        "atan": _over(lambda w, x, r: w.one_plus(w.square(x))),
        "sinh": _slope(lambda w, x, r: w.call("cosh", x)),
        "cosh": _slope(lambda w, x, r: w.call("sinh", x)),
        "tanh": _slope(lambda w, x, r: w.mul(w.one_minus(r), w.one_plus(r))),
        "erf": _slope(_bell),
        "sigmoid": _slope(lambda w, x, r: w.mul(r, w.one_minus(r))),
        "sign": _flat,
        "floor": _flat,
        "ceil": _flat,
        "round": _flat,
        "trunc": _flat,
        **SPECIAL_GRADIENTS,
    }
)
"""The rule of every function with a float result."""
