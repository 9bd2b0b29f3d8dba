"""Formulas in basic arithmetic: what the exact class means by a scalar function.

Owns: which functions are basic, the trees of all others, and the rewriting of a formula. Basic are
the operations that IEEE 754 rounds correctly (add, sub, mul, div, sqrt), those without rounding,
and everything on integers; a backend that has them, without contraction, has the exact class. The
trees are in `catalog/lower_*.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gpugoblin.catalog import lower_circular as circular
from gpugoblin.catalog import lower_exponential as exponential
from gpugoblin.catalog import lower_special as special
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder, const_value
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.terms import Term, select, term

__all__ = ["BASIC", "LOWERED", "lower_formula"]

Rule = Callable[..., Term]


def _least(x: Term, y: Term) -> Term:
    """The second of equals, so that zeros of either sign have one result; NaN stays."""
    return select((x < y) | x.call("isnan"), x, y)


def _most(x: Term, y: Term) -> Term:
    return select((x > y) | x.call("isnan"), x, y)


def _known_least(x: Term, y: Term) -> Term:
    return select((x < y) | y.call("isnan"), x, y)


def _known_most(x: Term, y: Term) -> Term:
    return select((x > y) | y.call("isnan"), x, y)


def _clamp(x: Term, low: Term, high: Term) -> Term:
    return _least(_most(x, low), high)


def _modulo(x: Term, y: Term) -> Term:
    rest = x.call("fmod", y)
    other = rest.call("ne", 0.0) & (rest < 0.0).call("ne", y < 0.0)
    return select(other, rest + y, select(rest.equals(0.0), y * 0.0, rest))


def _sign(x: Term) -> Term:
    """0.0 of both zeros, as NumPy has it; drivers make a constant of x * 0.0."""
    none = select(x.call("isnan"), math.nan, x.const(0.0))
    return select(x > 0.0, 1.0, select(x < 0.0, -1.0, none))


LOWERED: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "acos": circular.arc_cosine,
        "acosh": special.area_cosine,
        "asin": circular.arc_sine,
        "asinh": special.area_sine,
        "atan": circular.arc_tangent,
        "atan2": circular.arc_tangent2,
        "atanh": special.area_tangent,
        "cbrt": special.cube_root,
        "clamp": _clamp,
        "copysign": special.copysign,
        "cos": circular.cos,
        "cosh": exponential.cosh,
        "digamma": special.digamma,
        "erf": exponential.erf,
        "erfc": special.erfc,
        "erfinv": special.erfinv,
        "exp": exponential.exp,
        "exp2": exponential.exp2,
        "expm1": exponential.expm1,
        "fmax": _known_most,
        "fmin": _known_least,
        "hypot": special.hypot,
        "lgamma": special.log_gamma,
        "log": exponential.log,
        "log10": exponential.log10,
        "log1p": exponential.log1p,
        "log2": exponential.log2,
        "logaddexp": exponential.log_sum,
        "max": _most,
        "min": _least,
        "mod": _modulo,
        "nextafter": special.next_after,
        "pow": exponential.power,
        "recip": lambda x: 1.0 / x,
        "round_bfloat16": special.round_bfloat16,
        "round_float16": special.round_float16,
        "round_tf32": special.round_tf32,
        "rsqrt": lambda x: 1.0 / x.call("sqrt"),
        "sigmoid": exponential.sigmoid,
        "sign": _sign,
        "signbit": special.signbit,
        "sin": circular.sin,
        "sinc": circular.sinc,
        "sinh": exponential.sinh,
        "softplus": exponential.softplus,
        "tan": circular.tan,
        "tanh": exponential.tanh,
        "xlogy": exponential.x_log_y,
    }
)
"""What each function of float32 that is not basic is made of: terms in, a term out."""

BASIC: Final = frozenset(SCALARS) - frozenset(LOWERED)
"""Functions of float32 that every backend of the exact class has; of integers, all are."""


def lower_formula(tree: Formula, inputs: Sequence[str]) -> Formula:
    """An equal tree whose functions of float32 are basic. It may have more nodes than a formula may
    carry, so it is for backends, never for a graph.

    Args:
        inputs: dtypes of the inputs.
    """
    builder = _Lowering(inputs)
    known: list[int] = []
    for node in tree.nodes:
        operands = [known[operand] for operand in node.operands]
        match node.function:
            case "input":
                known.append(builder.input(node.value))
            case "const":
                known.append(builder.const(node.dtype, const_value(node).item()))
            case "cast":
                known.append(builder.cast(operands[0], node.dtype))
            case function:
                known.append(builder.call(function, *operands))
    return builder.build(known[-1])


class _Lowering(FormulaBuilder):
    """A builder that writes basic functions only, however deep the rules are nested."""

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__()
        self._inputs = inputs
        self._kinds: dict[int, str] = {}

    def input(self, number: int) -> int:
        return self._typed(super().input(number), self._inputs[number])

    def const(self, dtype: str, value: float | int | bool) -> int:
        return self._typed(super().const(dtype, value), dtype)

    def cast(self, operand: int, dtype: str) -> int:
        return self._typed(super().cast(operand, dtype), dtype)

    def call(self, function: str, *operands: int) -> int:
        dtypes = [self._kinds[operand] for operand in operands]
        rule = LOWERED.get(function)
        if rule is not None and dtypes[0] == "float32":
            terms = [term(self, node, dtype) for node, dtype in zip(operands, dtypes, strict=True)]
            return rule(*terms).node
        result = SCALARS[function].dtype_rule(dtypes)
        return self._typed(super().call(function, *operands), result or "")

    def _typed(self, node: int, dtype: str) -> int:
        self._kinds[node] = dtype
        return node
