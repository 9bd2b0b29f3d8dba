"""sin, cos, tan and their inverses, in float32 additions and multiplications of our own.

Owns: these functions on a card, the reduction of any argument modulo pi / 2 with it. Polynomials:
Cephes Math Library (S. L. Moshier), single precision. The reduction multiplies the 24 bits of the
argument with the bits of 2 / pi that matter (M. Payne and R. Hanek, 1983), in integers.
"""

from __future__ import annotations

import math
from typing import Final

from app.engine.backends.card.kernel import Value
from app.engine.backends.card.powers import copy_sign, divide, is_nan, magnitude, polynomial

__all__ = ["arccos", "arcsin", "arctan", "arctan2", "cos", "sin", "tan"]

_TWO_OVER_PI: Final = (
    *(0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0),
)
"""2 / pi times 1/4, bit by bit."""
_SIN: Final = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS: Final = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_ASIN: Final = (
    *(4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1),
)
_ATAN: Final = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_NAN: Final = 0x7FC00000


def _word(i: Value, shift: int) -> Value:
    """Word `i + shift` of 2 / pi, for i from 0 to 4."""
    k = i.kernel
    found = k.number("uint64", 0)
    for place in range(5):
        if 0 <= place + shift < len(_TWO_OVER_PI):
            word = k.number("uint64", _TWO_OVER_PI[place + shift])
            found = k.select(i.same(place), word, found)
    return found


def _reduced(x: Value) -> tuple[Value, Value]:
    """The quadrant (uint32, modulo 4) and the rest, at most pi / 4, of a finite number."""
    k = x.kernel
    bits = magnitude(x).bits("uint32")
    small = bits < 0x3F490FDB  # pi / 4
    power = (k.select(small, 0x3F800000, bits) >> 23) - 126
    mantissa = (bits << 8 | 0x80000000).as_("uint64")
    place, shift = power >> 5, (power & 31).as_("uint64")
    words = [_word(place, offset) for offset in (-1, 0, 1, 2)]
    high, middle, low = (
        ((words[n] << 32 | words[n + 1]) << shift >> 32) & 0xFFFFFFFF for n in range(3)
    )
    product = mantissa * low
    product = mantissa * middle + (product >> 32)
    product = ((mantissa * high) << 32) + product
    quadrant = (product >> 62).as_("uint32")
    rest = product & 0x3FFFFFFFFFFFFFFF
    beyond = (rest & 0x2000000000000000).differs(0)
    rest = k.select(beyond, rest - 0x4000000000000000, rest)
    quadrant = k.select(beyond, quadrant + 1, quadrant)
    share = k.make("ConvertSToF", "float32", rest.bits("int64"))
    angle = share * (math.pi / 2 * 2.0**-62)
    negative = (x.bits("uint32") >> 31).differs(0)
    angle = k.select(negative, -angle, angle)
    zero = k.number("uint32", 0)
    quadrant = k.select(negative, zero - quadrant, quadrant)
    return k.select(small, zero, quadrant), k.select(small, x, angle)


def _both(angle: Value) -> tuple[Value, Value]:
    """sin and cos of an angle of at most pi / 4."""
    z = angle * angle
    sine = polynomial(z, _SIN) * z * angle + angle
    cosine = polynomial(z, _COS) * z * z - z * 0.5 + 1.0
    return sine, cosine


def _no_end(x: Value, found: Value) -> Value:
    """NaN for infinities and NaN."""
    k = x.kernel
    endless = magnitude(x).bits("uint32") >= 0x7F800000
    return k.select(endless, k.pattern("float32", _NAN), found)


def _turned(x: Value, first: int) -> Value:
    """sin of the argument plus `first` right angles."""
    k = x.kernel
    quadrant, angle = _reduced(x)
    quadrant = quadrant + first if first else quadrant
    sine, cosine = _both(angle)
    found = k.select((quadrant & 1).differs(0), cosine, sine)
    found = k.select((quadrant & 2).differs(0), -found, found)
    return _no_end(x, found)


def sin(x: Value) -> Value:
    return _turned(x, 0)


def cos(x: Value) -> Value:
    return _turned(x, 1)


def tan(x: Value) -> Value:
    k = x.kernel
    quadrant, angle = _reduced(x)
    sine, cosine = _both(angle)
    odd = (quadrant & 1).differs(0)
    above = k.select(odd, -cosine, sine)
    below = k.select(odd, sine, cosine)
    return _no_end(x, divide(above, below))


def _arcsin_core(size: Value) -> tuple[Value, Value]:
    """Of a size from 0 to 1: whether it is above one half, and the arcsin of what is left."""
    k = size.kernel
    large = size > 0.5
    square = k.select(large, (-size + 1.0) * 0.5, size * size)
    root = k.extended("Sqrt", "float32", square)
    base = k.select(large, root, size)
    return large, polynomial(square, _ASIN) * square * base + base


def _inside(x: Value, found: Value) -> Value:
    k = x.kernel
    outside = (magnitude(x) > 1.0) | is_nan(x)
    return k.select(outside, k.pattern("float32", _NAN), found)


def _unit(x: Value) -> Value:
    k = x.kernel
    size = magnitude(x)
    return k.select(size > 1.0, 1.0, size)


def arcsin(x: Value) -> Value:
    k = x.kernel
    large, part = _arcsin_core(_unit(x))
    found = k.select(large, -(part + part) + math.pi / 2, part)
    return _inside(x, copy_sign(found, x))


def arccos(x: Value) -> Value:
    k = x.kernel
    large, part = _arcsin_core(_unit(x))
    twice = part + part
    negative = x < 0.0
    far = k.select(negative, -twice + math.pi, twice)
    near = -copy_sign(part, x) + math.pi / 2
    return _inside(x, k.select(large, far, near))


def _arctan_positive(size: Value) -> Value:
    k = size.kernel
    one = k.number("float32", 1.0)
    far, middle = size > 2.414213562373095, size > 0.4142135623730950
    reduced = divide(k.select(far, -one, size - 1.0), k.select(far, size, size + 1.0))
    t = k.select(middle, reduced, size)
    zero = k.number("float32", 0.0)
    base = k.select(far, math.pi / 2, k.select(middle, math.pi / 4, zero))
    z = t * t
    return base + (polynomial(z, _ATAN) * z * t + t)


def arctan(x: Value) -> Value:
    k = x.kernel
    return k.select(is_nan(x), x, copy_sign(_arctan_positive(magnitude(x)), x))


def arctan2(y: Value, x: Value) -> Value:
    k = x.kernel
    height, width = magnitude(y), magnitude(x)
    steep = height > width
    least, most = k.select(steep, width, height), k.select(steep, height, width)
    nothing = most.same(0.0)
    equal = least.same(most)
    ratio = divide(least, k.select(nothing, 1.0, most))
    ratio = k.select(nothing, 0.0, k.select(equal, 1.0, ratio))
    angle = _arctan_positive(ratio)
    angle = k.select(steep, -angle + math.pi / 2, angle)
    angle = k.select((x.bits("uint32") >> 31).differs(0), -angle + math.pi, angle)
    found = copy_sign(angle, y)
    return k.select(is_nan(x), x, k.select(is_nan(y), y, found))
