"""Arithmetic, comparisons, logic and the functions of one number.

Owns: those ATen operators. `relu`, `clamp` and their kind are written with `where`, so that their
derivative at the edge is torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.families.complexes import either
from gpugoblin.capture.torch.registry import aten, register
from gpugoblin.capture.torch.values import Pair, Scalar, Value
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import DTYPES

__all__: list[str] = []

_FLOAT_UNARY: Final = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos"),
    *("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "sigmoid"),
    *("lgamma", "digamma", "sinc"),
)
_SAME_UNARY: Final = ("sign", "floor", "ceil", "trunc")
_COMPARE: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def _float_unary(function: str) -> Callable[..., Any]:
    def rule(c: Context, x: Value) -> Value:
        return c.call(function, c.as_float(x))

    return rule


def _same_unary(function: str) -> Callable[..., Any]:
    def rule(c: Context, x: Value) -> Value:
        whole = DTYPES[c.dtype(x)].kind in "iu" and function != "sign"
        return x if whole else c.call(function, x)

    return rule


def _compare(function: str) -> Callable[..., Any]:
    def rule(c: Context, x: Value | Scalar, y: Value | Scalar) -> Value:
        left, right = c.together(x, y)
        if c.dtype(left) == "bool" and function not in ("eq", "ne"):
            left, right = c.cast(left, "int32"), c.cast(right, "int32")
        return c.call(function, left, right)

    return rule


for _name in _FLOAT_UNARY:
    register(_name, either(_name)(_float_unary(_name)))
register("erfinv", _float_unary("erfinv"))
register("erf_inv", _float_unary("erfinv"))
for _name in _SAME_UNARY:
    register(_name, _same_unary(_name))
for _name in _COMPARE:
    register(_name, either(_name)(_compare(_name)))


def _plain(c: Context, function: str, boolean: str, x: Any, y: Any) -> Value:
    left, right = c.together(x, y)
    return c.call(boolean if c.dtype(left) == "bool" else function, left, right)


def _scaled(c: Context, y: Any, alpha: Scalar) -> Any:
    if alpha == 1:
        return y
    if isinstance(y, Pair):
        return Pair(_scaled(c, y.real, alpha), _scaled(c, y.imag, alpha))
    return mul(c, y, alpha)


@aten("add")
@either("add")
def add(c: Context, x: Any, y: Any, alpha: Scalar = 1) -> Value:
    return _plain(c, "add", "or", x, _scaled(c, y, alpha))


@aten("sub")
@either("sub")
def sub(c: Context, x: Any, y: Any, alpha: Scalar = 1) -> Value:
    return _plain(c, "sub", "xor", x, _scaled(c, y, alpha))


@aten("rsub")
@either("rsub")
def rsub(c: Context, x: Any, y: Any, alpha: Scalar = 1) -> Value:
    return _plain(c, "sub", "xor", y, _scaled(c, x, alpha))


@aten("mul")
@either("mul")
def mul(c: Context, x: Any, y: Any) -> Value:
    return _plain(c, "mul", "and", x, y)


@aten("div", "true_divide")
@either("div")
def div(c: Context, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    left, right = c.together(x, y, floats=rounding_mode is None)
    if rounding_mode is None:
        return c.call("div", left, right)
    if c.floating(left):
        rounding = "floor" if rounding_mode == "floor" else "trunc"
        return c.formula((left, right), lambda f, a, b: f.call(rounding, f.call("div", a, b)))
    if rounding_mode == "floor":
        return c.call("floordiv", left, right)

    def truncated(f: FormulaBuilder, a: int, b: int) -> int:
        return f.call("floordiv", f.call("sub", a, f.call("fmod", a, b)), b)

    return c.formula((left, right), truncated)


@aten("floor_divide")
def floor_divide(c: Context, x: Any, y: Any) -> Value:
    return div(c, x, y, rounding_mode="floor")


@aten("neg")
@either("neg")
def neg(c: Context, x: Value) -> Value:
    return c.call("neg", x)


@aten("abs")
@either("abs")
def absolute(c: Context, x: Value) -> Value:
    return x if c.dtype(x) in ("bool", "uint8") else c.call("abs", x)


@aten("reciprocal")
@either("reciprocal")
def reciprocal(c: Context, x: Value) -> Value:
    return c.call("recip", c.as_float(x))


@aten("square")
@either("square")
def square(c: Context, x: Value) -> Value:
    return mul(c, x, x)


@aten("round")
def rounded(c: Context, x: Value, decimals: int = 0) -> Value:
    if not c.floating(x):
        return x
    if decimals == 0:
        return c.call("round", x)
    scale = c.number(10.0**decimals, c.dtype(x))
    return c.formula(
        (x, scale), lambda f, a, s: f.call("div", f.call("round", f.call("mul", a, s)), s)
    )


@aten("frac")
def frac(c: Context, x: Value) -> Value:
    return c.formula((x,), lambda f, a: f.call("sub", a, f.call("trunc", a)))


@aten("pow", "float_power")
@either("pow")
def power(c: Context, x: Any, y: Any) -> Value:
    if isinstance(y, int | float) and isinstance(x, Value):
        return _fixed_power(c, x, y)
    left, right = c.together(x, y)
    return c.call("pow", left, right)


def _fixed_power(c: Context, x: Value, y: Scalar) -> Value:
    """Powers by a number: products and roots where they are exact, as torch does."""
    x = c.cast(x, c.promoted(x, y))
    if y == 2:
        return c.call("mul", x, x)
    if y == 3:
        return c.formula((x,), lambda f, a: f.call("mul", f.call("mul", a, a), a))
    if y == 1:
        return x
    if c.floating(x):
        special = {0.5: "sqrt", -0.5: "rsqrt", -1: "recip"}.get(y)
        if special:
            return c.call(special, x)
        if y == 0:
            return c.filled(c.shape(x), 1.0, c.dtype(x))
        if y == -2:
            return c.formula((x,), lambda f, a: f.call("recip", f.call("mul", a, a)))
    return c.call("pow", x, c.number(y, c.dtype(x)))


@aten("minimum", "min.other")
def minimum(c: Context, x: Any, y: Any) -> Value:
    return _plain(c, "min", "and", x, y)


@aten("maximum", "max.other")
def maximum(c: Context, x: Any, y: Any) -> Value:
    return _plain(c, "max", "or", x, y)


def _ignoring_nan(function: str) -> Callable[..., Any]:
    def rule(c: Context, x: Any, y: Any) -> Value:
        left, right = c.together(x, y)
        if not c.floating(left):
            return c.call(function, left, right)

        def write(f: FormulaBuilder, a: int, b: int) -> int:
            both = f.call("where", f.call("isnan", b), a, f.call(function, a, b))
            return f.call("where", f.call("isnan", a), b, both)

        return c.formula((left, right), write)

    return rule


register("fmin", _ignoring_nan("min"))
register("fmax", _ignoring_nan("max"))


@aten("atan2")
def atan2(c: Context, x: Any, y: Any) -> Value:
    return c.call("atan2", *c.together(x, y, floats=True))


@aten("remainder")
def remainder(c: Context, x: Any, y: Any) -> Value:
    return c.call("mod", *c.together(x, y))


@aten("fmod")
def fmod(c: Context, x: Any, y: Any) -> Value:
    return c.call("fmod", *c.together(x, y))


@aten("hypot")
def hypot(c: Context, x: Any, y: Any) -> Value:
    def write(f: FormulaBuilder, a: int, b: int) -> int:
        return f.call("sqrt", f.call("add", f.call("mul", a, a), f.call("mul", b, b)))

    return c.formula(c.together(x, y, floats=True), write)


@aten("logaddexp")
def logaddexp(c: Context, x: Any, y: Any) -> Value:
    left, right = c.together(x, y, floats=True)

    def write(f: FormulaBuilder, a: int, b: int, none: int) -> int:
        gap = f.call("neg", f.call("abs", f.call("sub", a, b)))
        apart = f.call("where", f.call("eq", a, b), none, gap)
        return f.call("add", f.call("max", a, b), f.call("log1p", f.call("exp", apart)))

    return c.formula((left, right, c.number(0.0, c.dtype(left))), write)


@aten("xlogy")
def xlogy(c: Context, x: Any, y: Any) -> Value:
    left, right = c.together(x, y, floats=True)
    zero, one = c.number(0.0, c.dtype(left)), c.number(1.0, c.dtype(left))

    def write(f: FormulaBuilder, a: int, b: int, none: int, unit: int) -> int:
        empty = f.call("eq", a, none)
        return f.call("mul", a, f.call("log", f.call("where", empty, unit, b)))

    return c.formula((left, right, zero, one), write)


@aten("copysign")
def copysign(c: Context, x: Any, y: Any) -> Value:
    left, right = c.together(x, y, floats=True)
    zero = c.number(0.0, c.dtype(left))

    def write(f: FormulaBuilder, a: int, b: int, none: int) -> int:
        size = f.call("abs", a)
        return f.call("where", f.call("lt", b, none), f.call("neg", size), size)

    return c.formula((left, right, zero), write)


@aten("lerp")
def lerp(c: Context, x: Any, y: Any, weight: Any) -> Value:
    start, end, share = c.together(x, y, weight)

    def write(f: FormulaBuilder, a: int, b: int, w: int) -> int:
        return f.call("add", a, f.call("mul", w, f.call("sub", b, a)))

    return c.formula((start, end, share), write)


@aten("addcmul")
def addcmul(c: Context, x: Value, y: Value, z: Value, value: Scalar = 1) -> Value:
    return add(c, x, mul(c, y, z), alpha=value)


@aten("addcdiv")
def addcdiv(c: Context, x: Value, y: Value, z: Value, value: Scalar = 1) -> Value:
    return add(c, x, div(c, y, z), alpha=value)


def _test(function: str) -> Callable[..., Any]:
    def rule(c: Context, x: Value) -> Value:
        if c.floating(x):
            return c.call(function, x)
        return c.filled(c.shape(x), function == "isfinite", "bool")

    return rule


for _name in ("isnan", "isinf", "isfinite"):
    register(_name, _test(_name))


def truth(c: Context, x: Value) -> Value:
    """bool: is it not zero?"""
    return c.cast(x, "bool")


def _logic(function: str) -> Callable[..., Any]:
    def rule(c: Context, *operands: Value) -> Value:
        return c.call(function, *(truth(c, operand) for operand in operands))

    return rule


def _bits(function: str) -> Callable[..., Any]:
    def rule(c: Context, *operands: Any) -> Value:
        return c.call(function, *c.together(*operands))

    return rule


for _name in ("and", "or", "xor", "not"):
    register(f"logical_{_name}", _logic(_name))
    register(f"bitwise_{_name}", _bits(_name))
for _name in ("and", "or", "xor"):
    register(f"__{_name}__", _bits(_name))
for _alias, _name in (("bitwise_left_shift", "shl"), ("bitwise_right_shift", "shr")):
    register(_alias, _bits(_name))
for _alias, _name in (("__lshift__", "shl"), ("__rshift__", "shr")):
    register(_alias, _bits(_name))


@aten("signbit")
def signbit(c: Context, x: Value) -> Value:
    return c.call("lt", *c.together(x, 0))


@aten("sgn")
@either("sgn")
def sgn(c: Context, x: Value) -> Value:
    return c.call("sign", x)


@aten("where")
def where(c: Context, condition: Value, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise Unsupported("where(condition) alone has as many results as the data says")
    if isinstance(x, Pair) or isinstance(y, Pair):
        from gpugoblin.capture.torch.families.complexes import as_pair

        one, other = as_pair(c, x), as_pair(c, y)
        return Pair(
            where(c, condition, one.real, other.real), where(c, condition, one.imag, other.imag)
        )
    if isinstance(x, Value) or isinstance(y, Value):
        left, right = c.together(x, y)
    else:
        dtype = c.default_float() if float in (type(x), type(y)) else "int64"
        left, right = c.number(x, dtype), c.number(y, dtype)
    return c.call("where", truth(c, condition), left, right)


@aten("masked_fill")
def masked_fill(c: Context, x: Value, mask: Value, value: Any) -> Value:
    filler = c.as_value(value, c.dtype(x))
    shape = c.broadcast_shapes(c.shape(x), c.shape(mask))
    return c.call("where", c.spread(mask, shape), filler, x)


@aten("clamp")
def clamp(c: Context, x: Value, min: Any = None, max: Any = None) -> Value:
    bounds = [bound for bound in (min, max) if bound is not None]
    x = c.cast(x, c.promoted(x, *bounds))
    for bound, function in ((min, "lt"), (max, "gt")):
        if bound is None or (isinstance(bound, float) and math.isinf(bound)):
            continue
        edge = c.as_value(bound, c.dtype(x))

        def write(f: FormulaBuilder, a: int, e: int, function: str = function) -> int:
            return f.call("where", f.call(function, a, e), e, a)

        x = c.formula((x, edge), write)
    return x


@aten("clamp_min")
def clamp_min(c: Context, x: Value, least: Any) -> Value:
    return clamp(c, x, least, None)


@aten("clamp_max")
def clamp_max(c: Context, x: Value, most: Any) -> Value:
    return clamp(c, x, None, most)
