"""Inverse hyperbolic, error, gamma and bit functions as trees of basic arithmetic.

Owns: the evaluation that the exact class means. Sources beside each; where a function crosses zero
its error is bounded absolutely (`catalog/scalars.py`).
"""

from __future__ import annotations

import math
from typing import Final

from gpugoblin.catalog import polynomials as fitted
from gpugoblin.catalog.lower_circular import sine_of_pi, tan
from gpugoblin.catalog.lower_exponential import exp, log, log1p
from gpugoblin.catalog.terms import Term, horner, select

__all__ = [
    "area_cosine", "area_sine", "area_tangent", "copysign", "cube_root", "digamma", "erfc",
    "erfinv", "hypot", "log_gamma", "next_after", "round_bfloat16", "round_float16", "round_tf32",
    "signbit",
]  # fmt: skip

SHIFT: Final = 8
"""Gamma functions are asymptotic from here on (M. Abramowitz and I. Stegun, 6.1.41 and 6.3.18)."""
SIGN: Final = -(2**31)


def _signed(value: Term, like: Term) -> Term:
    return select(like.call("signbit"), -value, value)


def area_sine(x: Term) -> Term:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))); log(a) + log 2 where the square would overflow."""
    size = abs(x)
    held = size.call("min", 2.0**40)
    square = held * held
    near = log1p(held + square / ((square + 1.0).call("sqrt") + 1.0))
    far = log(size) + math.log(2.0)
    return _signed(select(size < 2.0**30, near, far), x)


def area_cosine(x: Term) -> Term:
    above = x - 1.0
    near = log1p(above + (above * 2.0 + above * above).call("sqrt"))
    value = select(x < 2.0**30, near, log(x) + math.log(2.0))
    return select(x < 1.0, math.nan, value)


def area_tangent(x: Term) -> Term:
    size = abs(x)
    return _signed(log1p((size * 2.0) / (1.0 - size)) * 0.5, x)


def erfc(x: Term) -> Term:
    """t exp(p(t) - x^2) with t = 1 / (1 + |x| / 2)."""
    size = abs(x).call("min", 12.0)
    t = 1.0 / (size * 0.5 + 1.0)
    head = (size * 256.0).call("floor") * 2.0**-8  # its square is exact
    tail = (size - head) * (size + head)
    value = (t * exp(-(head * head))) * exp(horner(t, fitted.ERFC) - tail)
    return select(x < 0.0, 2.0 - value, value)


def erfinv(x: Term) -> Term:
    """In w = -log(1 - x^2), as M. Giles, Approximating the erfinv function, 2010."""
    width = -log((1.0 - x) * (x + 1.0))
    centre = horner(width - 2.5, fitted.ERFINV_CENTRE)
    tail = horner(width.call("sqrt") - 3.0, fitted.ERFINV_TAIL)
    value = x * select(width < 5.0, centre, tail)
    return select(abs(x).equals(1.0), x * math.inf, value)


def _rising(x: Term) -> Term:
    """x (x + 1) ... (x + 7)."""
    product = x
    for step in range(1, SHIFT):
        product = product * (x + float(step))
    return product


def log_gamma(x: Term) -> Term:
    """log |gamma(x)|; negative arguments by the reflection formula."""
    mirrored = x < 0.5
    at = select(mirrored, 1.0 - x, x)
    near = at < float(SHIFT)
    big = select(near, at + float(SHIFT), at)
    inverse = 1.0 / big
    series = horner(inverse * inverse, (1 / 1260, -1 / 360, 1 / 12)) * inverse
    value = (big - 0.5) * (log(big) - 1.0) + (series + (0.5 * math.log(2 * math.pi) - 0.5))
    shifted = value - log(_rising(select(near, at, 1.0)))
    value = select(near, shifted, value)
    value = select(at.equals(math.inf), math.inf, value)
    reflected = (math.log(math.pi) - log(abs(sine_of_pi(x)))) - value
    value = select(mirrored, reflected, value)
    return select(x.equals(-math.inf) | (x.call("floor").equals(x) & (x <= 0.0)), math.inf, value)


def digamma(x: Term) -> Term:
    """The derivative of log gamma; NaN at its poles but for zeros, where it is infinite."""
    mirrored = x < 0.5
    at = select(mirrored, 1.0 - x, x)
    big, steps = at, at.const(0.0)
    for step in range(SHIFT):
        low = at < float(SHIFT - step)
        steps = select(low, steps + 1.0 / (at + float(step)), steps)
        big = select(low, at + float(step + 1), big)
    inverse = 1.0 / big
    square = inverse * inverse
    series = horner(square, (1 / 252, -1 / 120, 1 / 12)) * square
    value = ((log(big) - inverse * 0.5) - series) - steps
    angle = (x - x.call("round")) * math.pi
    reflected = value - math.pi / tan(angle)
    value = select(mirrored, reflected, value)
    whole = x.call("floor").equals(x) & (x < 0.0)
    value = select(whole, math.nan, value)
    return select(x.equals(0.0), _signed(x.const(-math.inf), x), value)


def hypot(x: Term, y: Term) -> Term:
    """sqrt(x^2 + y^2) without overflow; infinite beside any infinity."""
    wide, high = abs(x), abs(y)
    most, least = wide.call("max", high), wide.call("min", high)
    ratio = select(most.equals(0.0), 0.0, least / most)
    value = most * (ratio * ratio + 1.0).call("sqrt")
    return select(wide.equals(math.inf) | high.equals(math.inf), math.inf, value)


def cube_root(x: Term) -> Term:
    """A third of the exponent by bits, then Newton's iteration."""
    size = abs(x)
    small = size < 2.0**-100
    at = select(small, size * 2.0**48, size)
    guess = (at.bits().call("floordiv", 3) + 0x2A514067).from_bits()
    for _ in range(4):
        guess = guess - (guess - at / (guess * guess)) * (1.0 / 3.0)
    value = select(small, guess * 2.0**-16, guess)
    value = select(size.equals(0.0) | (size.equals(math.inf)), size, value)
    return _signed(select(size.equals(size), value, x), x)


def round_tf32(x: Term) -> Term:
    return _round_bits(x, 13)


def round_bfloat16(x: Term) -> Term:
    return _round_bits(x, 16)


def _round_bits(x: Term, dropped: int) -> Term:
    """Without the last bits, to nearest and ties to even: the carry may run into the exponent."""
    bits = x.bits()
    odd = (bits >> dropped) & 1
    kept = ((bits + ((1 << (dropped - 1)) - 1)) + odd) & -(1 << dropped)
    return select(x.equals(x), kept.from_bits(), x)


def round_float16(x: Term) -> Term:
    """To a multiple of 2^-10 of the power of two below, of 2^-24 at least; from 65520 infinity."""
    power = ((x.bits() >> 23) & 255).call("max", 113)
    step = ((power - 10) << 23).from_bits()
    value = (x / step).call("round") * step
    value = select(abs(x) >= 65520.0, copysign(x.const(math.inf), x), value)
    return select(x.equals(x), value, x)


def signbit(x: Term) -> Term:
    return x.bits() < 0


def copysign(x: Term, y: Term) -> Term:
    return ((x.bits() & 0x7FFFFFFF) | (y.bits() & SIGN)).from_bits()


def next_after(x: Term, y: Term) -> Term:
    """The next float32 from x toward y: bit patterns of one sign are ordered as the numbers."""
    bits = x.bits()
    away = (y > x).call("eq", x > 0.0)
    moved = select(away, bits + 1, bits - 1).from_bits()
    least = copysign(x.const(2.0**-149), y)
    value = select(x.equals(0.0), least, moved)
    value = select(x.equals(y), y, value)
    return select(x.equals(x) & y.equals(y), value, math.nan)
