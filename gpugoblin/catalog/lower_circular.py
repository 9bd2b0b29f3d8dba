"""sin, cos and their kin as trees of basic arithmetic.

Owns: the evaluation that the exact class means. The argument is reduced exactly for every float32
(M. H. Payne and R. N. Hanek, 1983): x = m 2^e with a 24-bit m, and of 2 / pi only the 96 bits that
matter at that exponent are multiplied with m, modulo four quadrants, in int64. The rest, a fraction
of a quadrant with 62 bits, is multiplied by pi / 2 in fixed point and only then rounded to float32.
No float32 is nearer than 2^-29 quadrants to a multiple of pi / 2: 33 bits of it are left at worst.
"""

from __future__ import annotations

import math
from typing import Final

from gpugoblin.catalog import polynomials as fitted
from gpugoblin.catalog.terms import Term, horner, select

__all__ = [
    "arc_cosine",
    "arc_sine",
    "arc_tangent",
    "arc_tangent2",
    "cos",
    "sin",
    "sinc",
    "sine_of_pi",
    "tan",
]

TWO_OVER_PI: Final = (
    0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
)  # fmt: skip
"""2 / pi in words of 32 bits after the point, behind one word of zeros."""

HALF_PI_30: Final = 0x6487ED51
"""pi / 2 in units of 2^-30."""
LOW_32: Final = 0xFFFFFFFF
REDUCED_FROM: Final = 0.7853981


def sin(x: Term) -> Term:
    rest, quadrant = _reduced(x)
    return _turned(x, rest, quadrant, select(x.call("signbit"), x.const(-1.0), 1.0))


def cos(x: Term) -> Term:
    rest, quadrant = _reduced(x)
    return _turned(x, rest, quadrant + 1, x.const(1.0))


def tan(x: Term) -> Term:
    return sin(x) / cos(x)


def sinc(x: Term) -> Term:
    """sin(pi x) / (pi x); 1 at 0."""
    return select(x.equals(0.0), 1.0, sine_of_pi(x) / (x * math.pi))


def sine_of_pi(x: Term) -> Term:
    """sin(pi x) with the whole number taken off first, exactly."""
    whole = x.call("round")
    value = sin((x - whole) * math.pi)
    half = whole * 0.5
    return select(half.call("floor").equals(half), value, -value)


def _turned(x: Term, rest: Term, quadrant: Term, sign: Term) -> Term:
    square = rest * rest
    sine = rest + rest * (square * horner(square, fitted.SIN))
    cosine = (1.0 - square * 0.5) + (square * square) * horner(square, fitted.COS)
    value = select((quadrant & 1).equals(0), sine, cosine)
    value = select((quadrant & 2).equals(0), value, -value) * sign
    return select(abs(x) < math.inf, value, math.nan)


def _reduced(x: Term) -> tuple[Term, Term]:
    """|x| modulo pi / 2, to the nearest multiple, and the number of the quadrant (int32)."""
    size = abs(x)
    bits = size.bits()
    exponent = ((bits >> 23) - 120).call("max", 6)
    mantissa = ((bits & 0x7FFFFF) | 0x800000).cast("int64")
    place, shift = exponent >> 5, (exponent & 31).cast("int64")
    words = [_word(place, number) for number in range(4)]
    high, middle, low = (
        ((words[n] << shift) | (words[n + 1] >> (32 - shift))) & LOW_32 for n in range(3)
    )
    turned = ((mantissa * high) << 32) + mantissa * middle + ((mantissa * low) >> 32)
    quadrant = (turned + 2**61) >> 62
    part = turned - (quadrant << 62)
    fixed = (part >> 32) * HALF_PI_30 + (((part & LOW_32) * HALF_PI_30) >> 32)
    rest = fixed.cast("float32") * 2.0**-60
    far = size > REDUCED_FROM
    return select(far, rest, size), select(far, quadrant.cast("int32"), 0)


def _word(place: Term, number: int) -> Term:
    """Word `place + number` of the table, for places 0 to 4."""
    found = place.cast("int64").const(TWO_OVER_PI[number + 4 if number + 4 < 8 else 7])
    for known in range(3, -1, -1):
        found = select(place.equals(known), TWO_OVER_PI[known + number], found)
    return found


def arc_tangent(x: Term) -> Term:
    value = _arc(abs(x))
    return select(x.call("signbit"), -value, value)


def _arc(size: Term) -> Term:
    """The arc tangent of a number that is not negative."""
    over = size > 1.0
    folded = select(over, 1.0 / size, size)
    steep = folded > math.sqrt(2.0) - 1.0
    turned = select(steep, (folded - 1.0) / (folded + 1.0), folded)
    square = turned * turned
    value = turned + turned * (square * horner(square, fitted.ATAN))
    value = select(steep, value + math.pi / 4, value)
    return select(over, math.pi / 2 - value, value)


def arc_tangent2(y: Term, x: Term) -> Term:
    """The angle of (x, y); zeros and infinities as in C (ISO C, annex F.10.1.4)."""
    wide, high = abs(x), abs(y)
    same = wide.equals(high) & (wide.equals(0.0) | wide.equals(math.inf))
    ratio = select(same, select(wide.equals(0.0), wide.const(0.0), 1.0), high / wide)
    value = _arc(ratio)
    value = select(x.call("signbit"), math.pi - value, value)
    return select(y.call("signbit"), -value, value)


def arc_sine(x: Term) -> Term:
    return arc_tangent2(x, ((1.0 - x) * (x + 1.0)).call("sqrt"))


def arc_cosine(x: Term) -> Term:
    return arc_tangent2(((1.0 - x) * (x + 1.0)).call("sqrt"), x)
