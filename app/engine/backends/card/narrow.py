"""Narrow dtypes on a card: how they lie in memory, and what holds them in a register.

Owns: bytes and halves of float32 and int32. int8, int16 and uint8 are computed with as int32 and
wrapped after each function; float16 and bfloat16 are held as the float32 numbers that they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.engine.backends.card.values import Value

__all__ = [
    "HALVES",
    "NARROW",
    "RAW",
    "SMALL",
    "decoded",
    "encoded",
    "encoded_bits",
    "held",
    "wrapped",
]

HALVES: Final = frozenset({"float16", "bfloat16"})
SMALL: Final = {"int8": 8, "int16": 16, "uint8": 8}
"""Narrow integers, with their bits. Their own names are kinds of registers nowhere."""
NARROW: Final = HALVES | frozenset(SMALL)
RAW: Final = {
    **{"float32": "uint32", "int32": "uint32", "int64": "uint64", "bool": "uint8"},
    **{"float16": "uint16", "bfloat16": "uint16", "int16": "uint16", "int8": "uint8"},
    "uint8": "uint8",
}
"""What carries the bits of a dtype."""

_HALF_INFINITY: Final = 0x7C00
_SHIFTED_BIAS: Final = 112 << 23


def held(dtype: str) -> str:
    """The kind of register that holds a value of a dtype."""
    if dtype in HALVES:
        return "float32"
    return "int32" if dtype in SMALL else dtype


def decoded(raw: Value, dtype: str) -> Value:
    """What is held, of bits in uint8 or uint16."""
    k = raw.kernel
    bits = raw.as_("uint32")
    if dtype in SMALL:
        return wrapped(bits.bits("int32"), dtype)
    if dtype == "bfloat16":
        return (bits << 16).bits("float32")
    sign, size = (bits & 0x8000) << 16, bits & 0x7FFF
    plain = (size << 13) + _SHIFTED_BIAS
    plain = k.select(size >= _HALF_INFINITY, plain + _SHIFTED_BIAS, plain)
    small = k.make("ConvertUToF", "float32", size) * 2.0**-24
    found = k.select(size < 0x400, small.bits("uint32"), plain)
    return (found | sign).bits("float32")


def encoded(value: Value, dtype: str) -> Value:
    """The bits in uint8 or uint16 of what is held; it must be a number of the dtype."""
    return encoded_bits(value, dtype).as_(RAW[dtype])


def encoded_bits(value: Value, dtype: str) -> Value:
    """The same in uint32; a narrow integer has bits above."""
    k = value.kernel
    bits = value.bits("uint32")
    if dtype in SMALL:
        return bits
    if dtype == "bfloat16":
        return bits >> 16
    sign, size = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    plain = (size - _SHIFTED_BIAS) >> 13
    steps = k.select(size < 0x38800000, size.bits("float32"), 0.0) * 2.0**24
    small = k.make("ConvertFToS", "int32", steps).bits("uint32")
    found = k.select(size < 0x38800000, small, plain)
    found = k.select(size >= 0x7F800000, _HALF_INFINITY, found)
    found = k.select(size > 0x7F800000, 0x7E00, found)
    return found | sign


def wrapped(value: Value, dtype: str) -> Value:
    """An int32 as the narrow integer that has its lowest bits."""
    if dtype == "uint8":
        return value & 0xFF
    away = 32 - SMALL[dtype]
    return (value << away) >> away
