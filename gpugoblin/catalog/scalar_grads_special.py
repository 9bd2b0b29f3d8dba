"""Derivatives of the special scalar functions, written in scalar functions.

Owns: one rule a function, in the shape that `catalog/scalar_grads.py` describes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from gpugoblin.catalog.terms import Emitter, Term, horner, select, term

__all__ = ["SPECIAL_GRADIENTS"]

Gradient: TypeAlias = "Callable[[Emitter, Sequence[int], int, int], tuple[int | None, ...]]"
_Rule: TypeAlias = "Callable[[Sequence[Term], Term, Term], tuple[Term | None, ...]]"

# Trigamma: B(2n), n from 5 down to 1 (M. Abramowitz and I. Stegun, 6.4.12).
_TRIGAMMA: Final = (5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)
_SHIFT: Final = 12


def _gradient(rule: _Rule) -> Gradient:
    def gradient(
        emitter: Emitter, operands: Sequence[int], result: int, seed: int
    ) -> tuple[int | None, ...]:
        terms = [term(emitter, operand) for operand in operands]
        shares = rule(terms, term(emitter, result), term(emitter, seed))
        return tuple(None if share is None else share.node for share in shares)

    return gradient


def _slope(rule: Callable[[Term, Term], Term]) -> Gradient:
    return _gradient(lambda xs, r, seed: (seed * rule(xs[0], r),))


def _trigamma(x: Term) -> Term:
    """The derivative of digamma; below 1/2 by the reflection formula (6.4.7)."""
    mirrored = x < 0.5
    at = select(mirrored, 1.0 - x, x)
    steps = at.const(0.0)
    for step in range(_SHIFT):
        place = at + float(step)
        steps = steps + 1.0 / (place * place)
    big = at + float(_SHIFT)
    inverse = 1.0 / big
    square = inverse * inverse
    value = ((horner(square, _TRIGAMMA) * square) * inverse + (square * 0.5 + inverse)) + steps
    ratio = math.pi / ((x - x.call("round")) * math.pi).call("sin")
    return select(mirrored, ratio * ratio - value, value)


def _sinc(x: Term, r: Term) -> Term:
    flat = x.equals(0.0)
    return select(flat, 0.0, ((x * math.pi).call("cos") - r) / select(flat, 1.0, x))


def _hypot(xs: Sequence[Term], r: Term, seed: Term) -> tuple[Term, ...]:
    share = seed / r
    return xs[0] * share, xs[1] * share


def _copysign(xs: Sequence[Term], r: Term, seed: Term) -> tuple[Term | None, ...]:
    same = xs[0].call("signbit").call("eq", r.call("signbit"))
    return select(same, seed, -seed), None


def _clamp(xs: Sequence[Term], r: Term, seed: Term) -> tuple[Term, ...]:
    """Within the limits to the first operand; beyond one of them to that limit."""
    x, low, high = xs
    crossed, under, over = low > high, x < low, x > high
    to_high = crossed | over
    to_low = under & to_high.call("not")
    return (
        select(to_low | to_high, 0.0, seed),
        select(to_low, seed, 0.0),
        select(to_high, seed, 0.0),
    )


def _kept(beaten: str) -> Gradient:
    """fmin and fmax: to the operand that is chosen; equal ones share."""

    def rule(xs: Sequence[Term], r: Term, seed: Term) -> tuple[Term, ...]:
        x, y = xs
        shared = select(x.equals(y), seed * 0.5, seed)
        lost = x.call(beaten, y) | (x.call("isnan") & y.equals(y))
        lost_y = y.call(beaten, x) | (y.call("isnan") & x.equals(x))
        return select(lost, 0.0, shared), select(lost_y, 0.0, shared)

    return _gradient(rule)


def _log_sum(xs: Sequence[Term], r: Term, seed: Term) -> tuple[Term, ...]:
    x, y = xs
    return seed * (x - y).call("sigmoid"), seed * (y - x).call("sigmoid")


def _x_log_y(xs: Sequence[Term], r: Term, seed: Term) -> tuple[Term, ...]:
    x, y = xs
    flat = x.equals(0.0) & (y <= 0.0)
    return select(flat, 0.0, seed * y.call("log")), seed * (x / y)


def _flat(xs: Sequence[Term], r: Term, seed: Term) -> tuple[Term | None, ...]:
    return (None,) * len(xs)


SPECIAL_GRADIENTS: Final[Mapping[str, Gradient]] = MappingProxyType(
    {
        "acosh": _slope(lambda x, r: ((x - 1.0) * (x + 1.0)).call("rsqrt")),
        "asinh": _slope(lambda x, r: (x * x + 1.0).call("rsqrt")),
        "atanh": _slope(lambda x, r: 1.0 / ((1.0 - x) * (x + 1.0))),
        "bits_float": _gradient(_flat),
        "cbrt": _slope(lambda x, r: (1.0 / 3.0) / (r * r)),
        "clamp": _gradient(_clamp),
        "copysign": _gradient(_copysign),
        "digamma": _slope(lambda x, r: _trigamma(x)),
        "erfc": _slope(lambda x, r: (-(x * x)).call("exp") * (-2.0 / math.sqrt(math.pi))),
        "erfinv": _slope(lambda x, r: (r * r).call("exp") * (math.sqrt(math.pi) / 2.0)),
        "fmax": _kept("lt"),
        "fmin": _kept("gt"),
        "hypot": _gradient(_hypot),
        "lgamma": _slope(lambda x, r: x.call("digamma")),
        "logaddexp": _gradient(_log_sum),
        "nextafter": _gradient(lambda xs, r, seed: (seed, None)),
        "round_bfloat16": _gradient(lambda xs, r, seed: (seed,)),
        "round_float16": _gradient(lambda xs, r, seed: (seed,)),
        "round_tf32": _gradient(lambda xs, r, seed: (seed,)),
        "sinc": _slope(_sinc),
        "softplus": _slope(lambda x, r: x.call("sigmoid")),
        "xlogy": _gradient(_x_log_y),
    }
)
"""The rule of every special function with a float result."""
