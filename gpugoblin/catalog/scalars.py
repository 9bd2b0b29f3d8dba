"""The scalar functions of `formula`: one closed table.

Owns: name, number of operands, dtype rule, NumPy meaning, weight and rounding of each function.
`input`, `const` and `cast` are kinds of formula nodes, not functions.

Nothing is promoted: operands of one function have one dtype. Integers are two's complement and
wrap; what NumPy leaves to warnings (division by zero, negative exponents, shifts) is defined in
`catalog/scalar_numpy.py`. Minimum and maximum propagate NaN. Comparisons with NaN are False, `ne`
True. `round` goes to even.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from gpugoblin.catalog import scalar_errors as spread
from gpugoblin.catalog import scalar_numpy as own
from gpugoblin.catalog import special_functions as special
from gpugoblin.catalog.scalar_grads import GRADIENTS, ScalarGradient
from gpugoblin.catalog.spec import FLOATS, INTEGERS, NUMBERS, Array

__all__ = ["BITWISE", "SCALARS", "ScalarFunction"]

DtypeRule = Callable[[Sequence[str]], str | None]

_FLOAT: Final = FLOATS
_SINGLE: Final = ("float32",)
_INTS: Final = INTEGERS
_NUMBERS: Final = NUMBERS
_BITS: Final = ("bool", *_INTS)
_ALL: Final = (*NUMBERS, "bool")

BITWISE: Final = frozenset({"float_bits", "nextafter"})
"""Functions of how a float is stored: the reference gives them numbers of the dtype itself."""


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """One function of formulas.

    Args:
        arity: number of operands.
        flops: weight of one evaluation in the cost, with an addition as 1.
        accepts: dtypes of the operands (of the second and third for `where`).
        dtype_rule: dtype of the result from the operands' dtypes; None where they do not fit.
        evaluate: NumPy, in the dtype of the operands (the reference asks in float64 for float32);
            arrays in, one array out, broadcasting. Floating-point warnings are the caller's to
            silence with `numpy.errstate`.
        ufunc: the ufunc that `evaluate` is, where it is one: engines may use its `out=`.
        relative: rounding of an honest evaluation on exact operands, in units of 2^-24 of the
            result (float64: of 2^-53).
        absolute: the same, absolute, for float32; 2^-29 of it for float64.
        growth: `relative` is per unit of 1 + growth(operands, result).
        spread: how errors of operands become errors of the result.
        gradient: the derivative, for every function with a float result.
    """

    name: str
    arity: int
    flops: int
    accepts: tuple[str, ...]
    dtype_rule: DtypeRule
    evaluate: Callable[..., Array]
    ufunc: np.ufunc | None
    relative: float
    absolute: float
    growth: Callable[[Sequence[Array], Array], Array] | None
    spread: spread.Spread
    gradient: ScalarGradient | None


def _same(accepts: tuple[str, ...]) -> DtypeRule:
    def rule(dtypes: Sequence[str]) -> str | None:
        first = dtypes[0]
        return first if first in accepts and all(dtype == first for dtype in dtypes) else None

    return rule


def _test(accepts: tuple[str, ...]) -> DtypeRule:
    same = _same(accepts)

    def rule(dtypes: Sequence[str]) -> str | None:
        return None if same(dtypes) is None else "bool"

    return rule


def _only(operand: str, result: str) -> DtypeRule:
    return lambda dtypes: result if dtypes[0] == operand else None


def _select(dtypes: Sequence[str]) -> str | None:
    return dtypes[1] if dtypes[0] == "bool" and dtypes[1] == dtypes[2] else None


def _first(operands: Sequence[Array], result: Array) -> Array:
    return np.abs(operands[0])


def _exponent(operands: Sequence[Array], result: Array) -> Array:
    """|y log2 x|: what a power through exp2 and log2 loses."""
    size = np.abs(operands[1] * np.log2(np.abs(operands[0])))
    return np.where(np.isfinite(size), size, 0.0)


_OWN_RULES: Final[Mapping[str, DtypeRule]] = MappingProxyType(
    {
        "where": _select,
        "float_bits": _only("float32", "int32"),
        "bits_float": _only("int32", "float32"),
    }
)


def _function(
    name: str,
    arity: int,
    flops: int,
    accepts: tuple[str, ...],
    evaluate: Callable[..., Any],
    rule: spread.Spread,
    relative: float = 0.0,
    absolute: float = 0.0,
    *,
    test: bool = False,
    growth: Callable[[Sequence[Array], Array], Array] | None = None,
) -> ScalarFunction:
    ufunc = evaluate if isinstance(evaluate, np.ufunc) else None
    dtype_rule = _test(accepts) if test else _same(accepts)
    dtype_rule = _OWN_RULES.get(name, dtype_rule)
    return ScalarFunction(
        name,
        arity,
        flops,
        accepts,
        dtype_rule,
        evaluate,
        ufunc,
        relative,
        absolute,
        growth,
        rule,
        GRADIENTS.get(name),
    )


def _unary(
    name: str,
    flops: int,
    evaluate: Callable[..., Any],
    relative: float,
    absolute: float = 0.0,
    rule: spread.Spread | None = None,
    growth: Callable[[Sequence[Array], Array], Array] | None = None,
) -> ScalarFunction:
    """A function of one float; monotone unless a rule says otherwise."""
    found = spread.monotone(evaluate) if rule is None else rule
    return _function(name, 1, flops, _FLOAT, evaluate, found, relative, absolute, growth=growth)


def _rounding(name: str, evaluate: Callable[..., Any]) -> ScalarFunction:
    """float32 rounded to a narrower format."""
    return _function(name, 1, 4, _SINGLE, evaluate, spread.monotone(evaluate))


# Rounding, in units of 2^-24 (float64: of 2^-53): the basic operations round correctly except that
# division, square root and reciprocal may be off as Vulkan allows (2.5 and 3 units in the last
# place); the rest is what Vulkan's exp, exp2, log and pow, and the polynomials of NumPy and of
# common device libraries, stay within. sin and cos must reduce their argument properly.
_P21: Final = 2.0**-21

_TABLE: Final = (
    _function("add", 2, 1, _NUMBERS, np.add, spread.total, 1),
    _function("sub", 2, 1, _NUMBERS, np.subtract, spread.total, 1),
    _function("mul", 2, 1, _NUMBERS, np.multiply, spread.product, 1),
    _function("div", 2, 4, _FLOAT, np.divide, spread.quotient, 5),
    _function("floordiv", 2, 8, _INTS, own.floor_divide, spread.unbounded),
    _function("mod", 2, 8, _NUMBERS, own.floor_modulo, spread.modulo, 2),
    _function("fmod", 2, 8, _NUMBERS, own.truncated_modulo, spread.modulo, 2),
    _function("pow", 2, 16, _NUMBERS, own.power, spread.power, 16, growth=_exponent),
    _function("min", 2, 1, _NUMBERS, np.minimum, spread.extremum),
    _function("max", 2, 1, _NUMBERS, np.maximum, spread.extremum),
    _function("atan2", 2, 16, _FLOAT, np.arctan2, spread.angle, 16, _P21),
    _function("neg", 1, 1, _NUMBERS, np.negative, spread.lipschitz(1)),
    _function("abs", 1, 1, _NUMBERS, np.abs, spread.lipschitz(1)),
    _function("sign", 1, 1, _NUMBERS, np.sign, spread.monotone(np.sign)),
    _unary("recip", 4, own.reciprocal, 5, rule=spread.reciprocal),
    _unary("sqrt", 4, np.sqrt, 6),
    _unary("rsqrt", 4, own.reciprocal_sqrt, 6),
    _unary("exp", 8, np.exp, 8, growth=_first),
    _unary("exp2", 8, np.exp2, 8, growth=_first),
    _unary("expm1", 8, np.expm1, 12, growth=_first),
    _unary("log", 8, np.log, 8, _P21),
    _unary("log2", 8, np.log2, 8, _P21),
    _unary("log10", 8, np.log10, 8, _P21),
    _unary("log1p", 8, np.log1p, 12),
    _unary("sin", 8, np.sin, 8, _P21, spread.lipschitz(1, 2)),
    _unary("cos", 8, np.cos, 8, _P21, spread.lipschitz(1, 2)),
    _unary("tan", 12, np.tan, 16, _P21, spread.tangent, growth=lambda _, result: np.abs(result)),
    _unary("asin", 12, np.arcsin, 16, _P21),
    _unary("acos", 12, np.arccos, 16, _P21),
    _unary("atan", 12, np.arctan, 16),
    _unary("sinh", 12, np.sinh, 12, growth=_first),
    _unary("cosh", 12, np.cosh, 12, 0.0, spread.cosh, growth=_first),
    _unary("tanh", 12, np.tanh, 12),
    _unary("erf", 16, own.erf, 12, rule=spread.erf),
    _unary(
        "sigmoid",
        12,
        own.sigmoid,
        16,
        growth=lambda operands, _: np.minimum(np.abs(operands[0]), 128.0),
    ),
    _unary("asinh", 16, np.arcsinh, 16),
    _unary("acosh", 16, np.arccosh, 16),
    _unary("atanh", 16, np.arctanh, 16),
    _unary("cbrt", 12, np.cbrt, 8),
    _unary("erfc", 24, special.erfc, 24, rule=spread.erf),
    _unary("erfinv", 24, special.erfinv, 24),
    _unary("lgamma", 32, special.log_gamma, 24, 2.0**-16, spread.gamma_log),
    _unary("digamma", 32, special.digamma, 24, 2.0**-17, spread.gamma_slope),
    _unary("softplus", 16, own.softplus, 16, growth=_first),
    _unary("sinc", 12, special.sinc, 8, _P21, spread.lipschitz(1.4, 1.3)),
    _function("hypot", 2, 8, _FLOAT, np.hypot, spread.total, 8),
    _function("logaddexp", 2, 20, _FLOAT, own.log_sum, spread.total, 12, _P21),
    _function("xlogy", 2, 10, _FLOAT, own.x_log_y, spread.corners(own.x_log_y), 12),
    _function("clamp", 3, 2, _NUMBERS, own.clamp, spread.between),
    _function("fmin", 2, 1, _NUMBERS, np.fmin, spread.extremum),
    _function("fmax", 2, 1, _NUMBERS, np.fmax, spread.extremum),
    _function("copysign", 2, 1, _FLOAT, own.copysign, spread.sign_copied),
    _function("nextafter", 2, 4, _FLOAT, own.next_after, spread.unbounded),
    _function("truncdiv", 2, 8, _INTS, own.truncated_divide, spread.unbounded),
    _function("float_bits", 1, 1, _SINGLE, own.float_bits, spread.unbounded),
    _function("bits_float", 1, 1, ("int32",), own.bits_float, spread.unbounded),
    _rounding("round_bfloat16", own.round_bfloat16),
    _rounding("round_float16", own.round_float16),
    _rounding("round_tf32", own.round_tf32),
    _function("popcount", 1, 1, _INTS, own.count_bits, spread.unbounded),
    _function("ushr", 2, 1, _INTS, own.shift_right_logical, spread.unbounded),
    _function("signbit", 1, 1, _FLOAT, own.sign_bit, spread.sign_tested, test=True),
    _unary("floor", 1, np.floor, 0),
    _unary("ceil", 1, np.ceil, 0),
    _unary("round", 1, np.rint, 0),
    _unary("trunc", 1, np.trunc, 0),
    _function("eq", 2, 1, _ALL, np.equal, spread.comparison, test=True),
    _function("ne", 2, 1, _ALL, np.not_equal, spread.comparison, test=True),
    _function("lt", 2, 1, _NUMBERS, np.less, spread.comparison, test=True),
    _function("le", 2, 1, _NUMBERS, np.less_equal, spread.comparison, test=True),
    _function("gt", 2, 1, _NUMBERS, np.greater, spread.comparison, test=True),
    _function("ge", 2, 1, _NUMBERS, np.greater_equal, spread.comparison, test=True),
    _function("and", 2, 1, _BITS, np.bitwise_and, spread.logic(np.bitwise_and)),
    _function("or", 2, 1, _BITS, np.bitwise_or, spread.logic(np.bitwise_or)),
    _function("xor", 2, 1, _BITS, np.bitwise_xor, spread.logic(np.bitwise_xor)),
    _function("not", 1, 1, _BITS, np.invert, spread.logic(np.invert)),
    _function("shl", 2, 1, _INTS, own.shift_left, spread.unbounded),
    _function("shr", 2, 1, _INTS, own.shift_right, spread.unbounded),
    _function("where", 3, 1, _ALL, np.where, spread.select),
    _function("isnan", 1, 1, _FLOAT, np.isnan, spread.nothing, test=True),
    _function("isinf", 1, 1, _FLOAT, np.isinf, spread.nothing, test=True),
    _function("isfinite", 1, 1, _FLOAT, np.isfinite, spread.nothing, test=True),
)

SCALARS: Final[Mapping[str, ScalarFunction]] = MappingProxyType(
    {function.name: function for function in _TABLE}
)
"""Every scalar function by name."""
