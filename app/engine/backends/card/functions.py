"""Formulas on a card: every scalar function of the catalog, and the walk over a tree.

Owns: which function is written how. Loading it proves that none is missing or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from app.engine.backends.card import angles, powers, whole
from app.engine.backends.card.kernel import Value
from app.engine.backends.card.powers import is_nan, magnitude
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.lowering import LOWERED, lower_formula

__all__ = ["FUNCTIONS", "SERVED", "evaluate", "maximum", "minimum"]


def minimum(left: Value, right: Value) -> Value:
    """The lesser; NaN where one is."""
    k = left.kernel
    return _numbers_first(left, right, k.select(left < right, left, right))


def maximum(left: Value, right: Value) -> Value:
    k = left.kernel
    return _numbers_first(left, right, k.select(left > right, left, right))


def _numbers_first(left: Value, right: Value, found: Value) -> Value:
    """NaN where one of both is. A driver may turn the choice between two into a minimum of its
    own, which drops NaN (NVIDIA 580 does), so both are asked."""
    if left.kind != "float32":
        return found
    k = left.kernel
    return k.select(is_nan(left), left, k.select(is_nan(right), right, found))


def _absolute(value: Value) -> Value:
    if value.kind == "float32":
        return magnitude(value)
    return value.kernel.select(value < 0, -value, value)


def _sign(value: Value) -> Value:
    k = value.kernel
    kind = value.kind
    found = k.select(value > 0, 1, k.select(value < 0, -1, 0, kind))
    return k.select(is_nan(value), value, found) if kind == "float32" else found


def _power(left: Value, right: Value) -> Value:
    if left.kind == "float32":
        return powers.power(left, right)
    return whole.power_whole(left, right)


def _clamp(value: Value, low: Value, high: Value) -> Value:
    return minimum(maximum(value, low), high)


def _known_of(choose: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """One of two, where NaN loses against a number."""

    def function(left: Value, right: Value) -> Value:
        found = choose(left, right)
        if left.kind != "float32":
            return found
        k = left.kernel
        return k.select(is_nan(left), right, k.select(is_nan(right), left, found))

    return function


def _bits(value: Value) -> Value:
    one = value.kernel.number("int32", 0x7FC00000)
    return value.kernel.select(is_nan(value), one, value.bits("int32"))


@cache
def _lowered(name: str, dtypes: tuple[str, ...]) -> Formula:
    return lower_formula(call_formula(name), dtypes)


def _rounding(name: str) -> Callable[[Value], Value]:
    return lambda value: value.kernel.extended(name, "float32", value)


def _infinite(value: Value) -> Value:
    return magnitude(value).bits("uint32").same(0x7F800000)


def _finite(value: Value) -> Value:
    return magnitude(value).bits("uint32") < 0x7F800000


FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = MappingProxyType(
    {
        "add": lambda left, right: left + right,
        "sub": lambda left, right: left - right,
        "mul": lambda left, right: left * right,
        "div": powers.divide,
        "floordiv": whole.floor_divide,
        "mod": whole.floor_modulo,
        "fmod": whole.truncated_modulo,
        "pow": _power,
        "min": minimum,
        "max": maximum,
        "atan2": angles.arctan2,
        "neg": lambda value: -value,
        "abs": _absolute,
        "sign": _sign,
        "recip": powers.reciprocal,
        "sqrt": powers.sqrt,
        "rsqrt": powers.reciprocal_sqrt,
        "exp": powers.exp,
        "exp2": powers.exp2,
        "expm1": powers.expm1,
        "log": powers.log,
        "log2": powers.log2,
        "log10": powers.log10,
        "log1p": powers.log1p,
        "sin": angles.sin,
        "cos": angles.cos,
        "tan": angles.tan,
        "asin": angles.arcsin,
        "acos": angles.arccos,
        "atan": angles.arctan,
        "sinh": powers.sinh,
        "cosh": powers.cosh,
        "tanh": powers.tanh,
        "erf": powers.erf,
        "sigmoid": powers.sigmoid,
        "floor": _rounding("Floor"),
        "ceil": _rounding("Ceil"),
        "round": _rounding("RoundEven"),
        "trunc": _rounding("Trunc"),
        "eq": lambda left, right: left.same(right),
        "ne": lambda left, right: left.differs(right),
        "lt": lambda left, right: left < right,
        "le": lambda left, right: left <= right,
        "gt": lambda left, right: left > right,
        "ge": lambda left, right: left >= right,
        "and": lambda left, right: left & right,
        "or": lambda left, right: left | right,
        "xor": lambda left, right: left ^ right,
        "not": lambda value: ~value,
        "shl": whole.shift_left,
        "shr": whole.shift_right,
        "where": lambda condition, first, second: condition.kernel.select(condition, first, second),
        "clamp": _clamp,
        "fmin": _known_of(minimum),
        "fmax": _known_of(maximum),
        "truncdiv": whole.truncated_divide,
        "ushr": whole.shift_right_logical,
        "popcount": whole.count_bits,
        "float_bits": _bits,
        "bits_float": lambda value: value.bits("float32"),
        "isnan": is_nan,
        "isinf": _infinite,
        "isfinite": _finite,
    }
)


INEXACT: Final = frozenset({"digamma", "lgamma", "sinc"})
"""Made of basic functions these leave the catalog's bound on the software card of Mesa 22.3 (not on
an NVIDIA card), for a reason that is not known; so they are refused."""

SERVED: Final = (frozenset(FUNCTIONS) | frozenset(LOWERED)) - INEXACT
"""Functions that `evaluate` knows: those above, and what the catalog makes of basic ones."""


def evaluate(tree: Formula, inputs: Sequence[Value]) -> Value:
    """The value of a checked tree."""
    kernel = inputs[0].kernel
    known: list[Value] = []
    for node in tree.nodes:
        operands = [known[operand] for operand in node.operands]
        if node.function == "input":
            known.append(inputs[node.value])
        elif node.function == "const":
            bits = node.value & 1 if node.dtype == "bool" else node.value
            known.append(kernel.pattern(node.dtype, bits))
        elif node.function == "cast":
            known.append(whole.cast(operands[0], node.dtype))
        elif node.function in FUNCTIONS:
            known.append(FUNCTIONS[node.function](*operands))
        else:
            kinds = tuple(operand.kind for operand in operands)
            known.append(evaluate(_lowered(node.function, kinds), operands))
    return known[-1]
