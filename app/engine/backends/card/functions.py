"""Formulas on a card: every scalar function of the catalog, and the walk over a tree.

Owns: which function is written how. Loading it proves that none is missing or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from app.engine.backends.card import angles, correct, powers, whole
from app.engine.backends.card.kernel import Kernel, Value
from app.engine.backends.card.narrow import HALVES, SMALL, wrapped
from app.engine.backends.card.powers import is_nan, magnitude
from app.engine.backends.card.target import target
from gpugoblin.catalog.casting import decoded
from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_build import call_formula, const_value
from gpugoblin.catalog.lowering import LOWERED, lower_formula
from gpugoblin.catalog.scalars import SCALARS

__all__ = ["FUNCTIONS", "SERVED", "cast_value", "evaluate", "maximum", "minimum"]


def minimum(left: Value, right: Value) -> Value:
    """The lesser; NaN where one is."""
    return _first_where(left < right, left, right)


def maximum(left: Value, right: Value) -> Value:
    return _first_where(left > right, left, right)


def _first_where(condition: Value, left: Value, right: Value) -> Value:
    """One of two; NaN where one is, as a right one fails every comparison. A driver may turn a
    plain choice into a minimum of its own, which drops NaN (NVIDIA 580 does)."""
    k = left.kernel
    if left.kind == "float32":
        condition = condition | is_nan(left)
    found = k.select(condition, left, right)
    return k.select(is_nan(right), right, found) if k.loose and left.kind == "float32" else found


def _quotient(left: Value, right: Value) -> Value:
    given = target()
    if given.ordered and not given.divides:
        return correct.divided(left, right)
    return powers.divide(left, right)


def _root(value: Value) -> Value:
    given = target()
    if given.ordered and not given.divides:
        return correct.rooted(value)
    return powers.sqrt(value)


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
        "div": _quotient,
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
        "sqrt": _root,
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


SERVED: Final = frozenset(FUNCTIONS) | frozenset(LOWERED)
"""Functions that `evaluate` knows: those above, and what the catalog makes of basic ones."""


def evaluate(tree: Formula, inputs: Sequence[Value], dtypes: Sequence[str] = ()) -> Value:
    """The value of a checked tree, in the kind that holds its dtype.

    Args:
        dtypes: of the inputs; none where they are what holds them.
    """
    kernel = inputs[0].kernel
    known: list[Value] = []
    kinds: list[str] = []
    for node in tree.nodes:
        operands = [known[operand] for operand in node.operands]
        given = [kinds[operand] for operand in node.operands]
        if node.function == "input":
            known.append(inputs[node.value])
            kinds.append(dtypes[node.value] if dtypes else inputs[node.value].kind)
        elif node.function == "const":
            known.append(_constant(kernel, node))
            kinds.append(node.dtype)
        elif node.function == "cast":
            known.append(cast_value(operands[0], given[0], node.dtype))
            kinds.append(node.dtype)
        else:
            result = SCALARS[node.function].dtype_rule(given) or ""
            known.append(_called(node.function, operands, given, result))
            kinds.append(result)
    return known[-1]


def _constant(kernel: Kernel, node: FormulaNode) -> Value:
    if node.dtype in SMALL:
        return kernel.number("int32", int(const_value(node).item()))
    if node.dtype in HALVES:
        return kernel.number("float32", float(decoded(const_value(node)).item()))
    bits = node.value & 1 if node.dtype == "bool" else node.value
    return kernel.pattern(node.dtype, bits)


def _called(name: str, operands: list[Value], given: Sequence[str], result: str) -> Value:
    """A function of values of the dtypes `given`, in the kind that holds `result`."""
    if name in ("ushr", "popcount") and given[0] in SMALL:
        operands = [operands[0] & ((1 << SMALL[given[0]]) - 1), *operands[1:]]
    if name in FUNCTIONS:
        found = FUNCTIONS[name](*operands)
    else:
        kinds = tuple(operand.kind for operand in operands)
        found = evaluate(_lowered(name, kinds), operands)
    return wrapped(found, result) if result in SMALL else found


def cast_value(value: Value, source: str, target: str) -> Value:
    """As `gpugoblin.catalog.casting`, in the kind that holds the target."""
    if source == target:
        return value
    if target in HALVES:
        return evaluate(_lowered(f"round_{target}", ("float32",)), [whole.cast(value, "float32")])
    if target not in SMALL:
        return whole.cast(value, target)
    found = whole.cast(value, "int32")
    if value.kind != "float32":
        return wrapped(found, target)
    low, high = (0, 255) if target == "uint8" else (-(1 << SMALL[target] - 1), 0)
    high = high or -low - 1
    k = value.kernel
    return minimum(maximum(found, k.number("int32", low)), k.number("int32", high))
