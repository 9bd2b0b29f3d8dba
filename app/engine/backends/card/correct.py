"""Quotients and roots of float32 that are rounded correctly, in whole numbers.

Owns: these two, for class `exact` on cards whose own may be off by an ulp or two. Must not: rely on
anything but sums and products of whole numbers, exact conversions and exact scaling.
"""

from __future__ import annotations

from app.engine.backends.card.kernel import Value
from app.engine.backends.card.powers import copy_sign, scaled

__all__ = ["divided", "rooted"]

_INFINITY = 0x7F800000
_NAN = 0x7FC00000


def _size(x: Value) -> Value:
    return x.bits("uint32") & 0x7FFFFFFF


def _parts(x: Value) -> tuple[Value, Value]:
    """Of a finite size above zero: m (uint64) from 2^23 below 2^24 and e (int32): m * 2^e."""
    k = x.kernel
    bits = _size(x)
    small = bits < 0x800000
    whole = k.make("ConvertUToF", "float32", k.select(small, bits, 1)).bits("uint32")
    found = k.select(small, whole, bits)
    mantissa = ((found & 0x7FFFFF) | 0x800000).as_("uint64")
    exponent = (found >> 23).bits("int32") - 150
    return mantissa, k.select(small, exponent - 149, exponent)


def _rounded(whole: Value, more: Value, exponent: Value) -> Value:
    """The float32 next to (whole + a part of one, where there is `more`) * 2^exponent; of equally
    near ones the even. `whole` has 25 to 28 bits."""
    k = whole.kernel
    top = k.number("int32", 24)
    for power in (25, 26, 27):
        top = k.select(whole >= 1 << power, k.number("int32", power), top)
    last = top + exponent - 23
    last = k.select(last < -149, -149, last)
    shift = last - exponent
    shift = k.select(shift > 40, 40, shift).bits("uint32")
    kept = whole >> shift.as_("uint64")
    one = k.number("uint64", 1)
    rest = whole & ((one << shift.as_("uint64")) - 1)
    half = one << (shift - 1).as_("uint64")
    odd = (kept & 1).differs(0)
    up = (rest > half) | (rest.same(half) & (more | odd))
    kept = k.select(up, kept + 1, kept).as_("uint32")
    last = k.select(last > 254, 254, last)
    return scaled(k.make("ConvertUToF", "float32", kept), last)


def divided(x: Value, y: Value) -> Value:
    """The correctly rounded quotient, of any two numbers."""
    k = x.kernel
    (above, first), (below, second) = _parts(x), _parts(y)
    raised = above << 27
    found = _rounded(raised // below, (raised % below).differs(0), first - second - 27)
    over, under = _size(x), _size(y)
    nothing, endless = over.same(0), over.same(_INFINITY)
    no_divisor, far = under.same(0), under.same(_INFINITY)
    found = k.select(nothing | far, 0.0, found)
    found = k.select(endless | no_divisor, k.pattern("float32", _INFINITY), found)
    found = copy_sign(found, (x.bits("uint32") ^ y.bits("uint32")).bits("float32"))
    wrong = (nothing & no_divisor) | (endless & far) | (over > _INFINITY) | (under > _INFINITY)
    return k.select(wrong, k.pattern("float32", _NAN), found)


def rooted(x: Value) -> Value:
    """The correctly rounded square root."""
    k = x.kernel
    mantissa, exponent = _parts(x)
    odd = (exponent & 1).differs(0)
    raised = k.select(odd, mantissa << 27, mantissa << 26)
    even = (k.select(odd, exponent - 27, exponent - 26)) >> 1
    guess = k.extended("Sqrt", "float32", k.make("ConvertUToF", "float32", raised))
    root = k.make("ConvertFToS", "int32", guess).as_("uint64")
    root = (root + raised // root) >> 1  # a step of Newton: off by one at most
    root = k.select(root * root > raised, root - 1, root)
    root = k.select((root + 1) * (root + 1) <= raised, root + 1, root)
    found = _rounded(root, (root * root).differs(raised), even)
    bits = x.bits("uint32")
    found = k.select(_size(x).same(0) | bits.same(_INFINITY), x, found)
    wrong = (bits > 0x80000000) | (_size(x) > _INFINITY)
    return k.select(wrong, k.pattern("float32", _NAN), found)
