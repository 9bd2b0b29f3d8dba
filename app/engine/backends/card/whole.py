"""Integers, remainders and changes of kind on a card.

Owns: what the catalog defines where hardware leaves it open (`gpugoblin.catalog.scalar_numpy` and
`casting`): divisors of 0 and -1, shifts beyond the width, saturation.
"""

from __future__ import annotations

from app.engine.backends.card.kernel import Value
from app.engine.backends.card.powers import is_nan, magnitude
from app.engine.backends.card.spirv import WIDTHS

__all__ = [
    *("cast", "floor_divide", "floor_modulo", "power_whole", "shift_left", "shift_right"),
    *("count_bits", "shift_right_logical", "truncated_divide", "truncated_modulo"),
]


def cast(value: Value, kind: str) -> Value:
    """As `gpugoblin.catalog.casting`."""
    k = value.kernel
    if kind == value.kind:
        return value
    if kind == "bool":
        if value.kind == "float32":
            return value.differs(0.0) | is_nan(value)
        return value.differs(0)
    if value.kind == "bool":
        return k.select(value, 1, 0, kind)
    if kind == "float32":
        return k.make("ConvertSToF", "float32", value)
    if value.kind != "float32":
        return value.as_(kind)
    return _saturated(value, kind)


def _saturated(value: Value, kind: str) -> Value:
    k = value.kernel
    edge = 2.0 ** (8 * WIDTHS[kind] - 1)
    above, below = value >= edge, value < -edge
    plain = k.select(above | below | is_nan(value), 0.0, value)
    found = k.make("ConvertFToS", kind, plain)
    found = k.select(above, k.number(kind, int(edge) - 1), found)
    return k.select(below, k.number(kind, -int(edge)), found)


def _safe_divisor(right: Value) -> Value:
    """Neither 0 nor -1, on which a division may trap."""
    return right.kernel.select(right.same(0) | right.same(-1), 1, right)


def floor_divide(left: Value, right: Value) -> Value:
    k = left.kernel
    safe = _safe_divisor(right)
    quotient = left / safe
    rest = left - quotient * safe
    down = rest.differs(0) & ((rest ^ safe) < 0)
    quotient = k.select(down, quotient - 1, quotient)
    quotient = k.select(right.same(-1), -left, quotient)
    return k.select(right.same(0), 0, quotient)


def truncated_modulo(left: Value, right: Value) -> Value:
    k = left.kernel
    if left.kind == "float32":
        return _float_remainder(left, right)
    safe = _safe_divisor(right)
    rest = left - (left / safe) * safe
    return k.select(right.same(0) | right.same(-1), 0, rest)


def floor_modulo(left: Value, right: Value) -> Value:
    k = left.kernel
    rest = truncated_modulo(left, right)
    if left.kind != "float32":
        wrong = rest.differs(0) & ((rest ^ right) < 0)
        return k.select(wrong & right.differs(0), rest + right, rest)
    wrong = rest.differs(0.0) & ((rest.bits("int32") ^ right.bits("int32")) < 0)
    return k.select(wrong & ~is_nan(rest), rest + right, rest)


def _parts(x: Value) -> tuple[Value, Value]:
    """Mantissa (uint64) and exponent (uint32) of a size."""
    k = x.kernel
    bits = x.bits("uint32") & 0x7FFFFFFF
    small = bits < 0x800000
    mantissa = k.select(small, bits, (bits & 0x7FFFFF) | 0x800000)
    return mantissa.as_("uint64"), k.select(small, 1, bits >> 23)


def _float_remainder(left: Value, right: Value) -> Value:
    """The exact remainder, by long division of the mantissas, 32 bits a turn."""
    k = left.kernel
    dividend, high = _parts(left)
    divisor, low = _parts(right)
    nothing = divisor.same(0)
    divisor = k.select(nothing, 1, divisor)
    smaller = high < low
    distance = k.select(smaller, 0, high - low)
    rest = k.variable("uint64", dividend % divisor)
    with k.loop(0, distance >> 5):
        rest.set((rest.get() << 32) % divisor)
    found = (rest.get() << (distance & 31).as_("uint64")) % divisor
    size = k.make("ConvertUToF", "float32", found)
    result = _with_exponent(size, low)
    sign = left.bits("uint32") & 0x80000000
    result = (result.bits("uint32") | sign).bits("float32")
    kept = smaller | (magnitude(left).bits("uint32") < magnitude(right).bits("uint32"))
    result = k.select(kept, left, result)
    endless = magnitude(left).bits("uint32") >= 0x7F800000
    wrong = endless | nothing | is_nan(right)
    return k.select(wrong, k.pattern("float32", 0x7FC00000), result)


def _with_exponent(size: Value, exponent: Value) -> Value:
    """size * 2^(exponent - 150), each step within the range."""
    k = size.kernel
    steps = exponent.bits("int32") - 150
    half = steps >> 1
    first = ((half + 127) << 23).bits("float32")
    second = (((steps - half) + 127) << 23).bits("float32")
    return k.select(size.same(0.0), 0.0, size * first * second)


def power_whole(left: Value, right: Value) -> Value:
    """Integer powers that wrap; a negative exponent gives the quotient rounded toward zero."""
    k = left.kernel
    kind = left.kind
    result, base = k.variable(kind, 1), k.variable(kind, left)
    rest = k.variable(kind, k.select(right < 0, 0, right))
    with k.loop(0, 8 * WIDTHS[kind] - 1):
        odd = (rest.get() & 1).differs(0)
        result.set(k.select(odd, result.get() * base.get(), result.get()))
        base.set(base.get() * base.get())
        rest.set(rest.get() >> 1)
    one = k.number(kind, 1)
    odd = (right & 1).differs(0)
    inverse = k.select(left.same(-1), k.select(odd, -one, one), k.select(left.same(1), 1, 0, kind))
    return k.select(right < 0, inverse, result.get())


def truncated_divide(left: Value, right: Value) -> Value:
    k = left.kernel
    quotient = left / _safe_divisor(right)
    quotient = k.select(right.same(-1), -left, quotient)
    return k.select(right.same(0), 0, quotient)


def shift_right_logical(left: Value, right: Value) -> Value:
    k = left.kernel
    valid = _below(right, 8 * WIDTHS[left.kind])
    bits = left.bits(f"u{left.kind}")
    moved = bits >> k.select(valid, right, 0).bits(bits.kind)
    return k.select(valid, moved.bits(left.kind), 0)


def count_bits(value: Value) -> Value:
    """Bits that are set: pairs, then nibbles, then bytes are added up side by side."""
    width = 8 * WIDTHS[value.kind]
    bits = value.bits(f"u{value.kind}")
    masks = [int(pattern * (width // 8), 16) for pattern in ("55", "33", "0f")]
    bits = bits - ((bits >> 1) & masks[0])
    bits = (bits & masks[1]) + ((bits >> 2) & masks[1])
    bits = (bits + (bits >> 4)) & masks[2]
    return ((bits * int("01" * (width // 8), 16)) >> (width - 8)).bits(value.kind)


def _below(count: Value, width: int) -> Value:
    """Is a count of bits from 0 to below a power of two? By one test of bits."""
    return (count & -width).same(0)


def shift_left(left: Value, right: Value) -> Value:
    k = left.kernel
    valid = _below(right, 8 * WIDTHS[left.kind])
    return k.select(valid, left << k.select(valid, right, 0), 0)


def shift_right(left: Value, right: Value) -> Value:
    k = left.kernel
    width = 8 * WIDTHS[left.kind]
    valid = _below(right, width)
    return left >> k.select(valid, right, width - 1)
