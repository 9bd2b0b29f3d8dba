"""Complex numbers as pairs of reals.

Owns: `either`, which gives a real rule its complex meaning, and the ATen operators that take
complex numbers apart and put them together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.registry import Rule, aten
from gpugoblin.capture.torch.values import Pair, Value
from gpugoblin.catalog.formula_build import FormulaBuilder

__all__ = ["as_pair", "eachwise", "either"]


_Kept = TypeVar("_Kept", bound=Callable[..., Any])


def either(name: str) -> Callable[[_Kept], _Kept]:
    """A rule for reals that meets complex operands: the complex rule `name` then stands in."""

    def wrap(rule: _Kept) -> _Kept:
        @functools.wraps(rule)
        def chosen(c: Context, *operands: Any, **given: Any) -> Any:
            if any(isinstance(operand, Pair | complex) for operand in operands):
                if name not in _COMPLEX:
                    raise Unsupported(f"{name} of complex numbers")
                return _COMPLEX[name](c, *operands, **given)
            return rule(c, *operands, **given)

        return cast(_Kept, chosen)

    return wrap


def eachwise(rule: _Kept) -> _Kept:
    """A rule that only moves elements: both parts of a pair move alike."""

    @functools.wraps(rule)
    def chosen(c: Context, value: Any, *rest: Any, **given: Any) -> Any:
        if not isinstance(value, Pair):
            return rule(c, value, *rest, **given)
        real, imag = rule(c, value.real, *rest, **given), rule(c, value.imag, *rest, **given)
        if isinstance(real, tuple | list):
            return tuple(map(Pair, real, imag))
        return Pair(real, imag)

    return cast(_Kept, chosen)


def as_pair(c: Context, value: Any) -> Pair:
    """A real value or a Python number as a complex one."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, complex):
        return Pair(c.number(value.real, "float32"), c.number(value.imag, "float32"))
    if not isinstance(value, Value):
        return Pair(c.number(float(value), "float32"), c.number(0.0, "float32"))
    real = c.as_float(value)
    return Pair(real, c.filled(c.shape(real), 0.0, c.dtype(real)))


def _add(c: Context, x: Any, y: Any, alpha: Any = 1) -> Pair:
    left, right = as_pair(c, x), as_pair(c, y)
    if alpha != 1:
        right = _mul(c, right, alpha)
    return Pair(c.call("add", left.real, right.real), c.call("add", left.imag, right.imag))


def _sub(c: Context, x: Any, y: Any, alpha: Any = 1) -> Pair:
    left, right = as_pair(c, x), as_pair(c, y)
    if alpha != 1:
        right = _mul(c, right, alpha)
    return Pair(c.call("sub", left.real, right.real), c.call("sub", left.imag, right.imag))


def _mul(c: Context, x: Any, y: Any) -> Pair:
    if not isinstance(y, Pair | complex):
        x, y = y, x
    right = as_pair(c, y)
    if not isinstance(x, Pair | complex):
        scale = x if isinstance(x, Value) else c.number(float(x), c.dtype(right.real))
        scale = c.as_float(scale)
        return Pair(c.call("mul", right.real, scale), c.call("mul", right.imag, scale))
    left = as_pair(c, x)
    operands = (left.real, left.imag, right.real, right.imag)
    return Pair(c.formula(operands, _product_real), c.formula(operands, _product_imag))


def _product_real(f: FormulaBuilder, a: int, b: int, u: int, v: int) -> int:
    return f.call("sub", f.call("mul", a, u), f.call("mul", b, v))


def _product_imag(f: FormulaBuilder, a: int, b: int, u: int, v: int) -> int:
    return f.call("add", f.call("mul", a, v), f.call("mul", b, u))


def _reciprocal(c: Context, x: Pair) -> Pair:
    def real(f: FormulaBuilder, a: int, b: int) -> int:
        return f.call("div", a, f.call("add", f.call("mul", a, a), f.call("mul", b, b)))

    def imag(f: FormulaBuilder, a: int, b: int) -> int:
        size = f.call("add", f.call("mul", a, a), f.call("mul", b, b))
        return f.call("neg", f.call("div", b, size))

    return Pair(c.formula((x.real, x.imag), real), c.formula((x.real, x.imag), imag))


def _div(c: Context, x: Any, y: Any, rounding_mode: str | None = None) -> Pair:
    if isinstance(y, Pair | complex):
        return _mul(c, as_pair(c, x), _reciprocal(c, as_pair(c, y)))
    left = as_pair(c, x)
    scale = c.as_float(y) if isinstance(y, Value) else c.number(float(y), c.dtype(left.real))
    return Pair(c.call("div", left.real, scale), c.call("div", left.imag, scale))


def _abs(c: Context, x: Pair) -> Value:
    def write(f: FormulaBuilder, a: int, b: int) -> int:
        return f.call("sqrt", f.call("add", f.call("mul", a, a), f.call("mul", b, b)))

    return c.formula((x.real, x.imag), write)


def _sgn(c: Context, x: Pair) -> Pair:
    size = _abs(c, x)
    zero, one = c.number(0.0, c.dtype(size)), c.number(1.0, c.dtype(size))
    safe = c.call("where", c.call("eq", size, zero), one, size)
    return Pair(c.call("div", x.real, safe), c.call("div", x.imag, safe))


def _turned(c: Context, x: Pair, way: int) -> Pair:
    """Times i, or minus i."""
    if way > 0:
        return Pair(c.call("neg", x.imag), x.real)
    return Pair(x.imag, c.call("neg", x.real))


def _exp(c: Context, x: Pair) -> Pair:
    return polar(c, c.call("exp", x.real), x.imag)


def _log(c: Context, x: Pair) -> Pair:
    return Pair(c.call("log", _abs(c, x)), c.call("atan2", x.imag, x.real))


def _sqrt(c: Context, x: Pair) -> Pair:
    """The root with a real part that is not negative."""
    half, zero = c.number(0.5, c.dtype(x.real)), c.number(0.0, c.dtype(x.real))
    size = _abs(c, x)

    def real(f: FormulaBuilder, s: int, a: int, h: int, z: int) -> int:
        return f.call("sqrt", f.call("max", f.call("mul", f.call("add", s, a), h), z))

    def imag(f: FormulaBuilder, s: int, a: int, b: int, h: int, z: int) -> int:
        root = f.call("sqrt", f.call("max", f.call("mul", f.call("sub", s, a), h), z))
        return f.call("where", f.call("lt", b, z), f.call("neg", root), root)

    return Pair(
        c.formula((size, x.real, half, zero), real),
        c.formula((size, x.real, x.imag, half, zero), imag),
    )


def _sin(c: Context, x: Pair) -> Pair:
    def part(one: str, two: str) -> Value:
        return c.formula(
            (x.real, x.imag), lambda f, a, b: f.call("mul", f.call(one, a), f.call(two, b))
        )

    return Pair(part("sin", "cosh"), part("cos", "sinh"))


def _cos(c: Context, x: Pair) -> Pair:
    def part(one: str, two: str) -> Value:
        return c.formula(
            (x.real, x.imag), lambda f, a, b: f.call("mul", f.call(one, a), f.call(two, b))
        )

    return Pair(part("cos", "cosh"), c.call("neg", part("sin", "sinh")))


_MOST_PRODUCTS: Final = 8


def _pow(c: Context, x: Any, y: Any) -> Pair:
    """Products for small whole powers, else the exponential of the logarithm."""
    if isinstance(y, int | float) and float(y).is_integer() and 1 <= y <= _MOST_PRODUCTS:
        found = base = as_pair(c, x)
        for _ in range(int(y) - 1):
            found = _mul(c, found, base)
        return found
    return _exp(c, _mul(c, _log(c, as_pair(c, x)), y))


def _equal(c: Context, x: Any, y: Any) -> Value:
    left, right = as_pair(c, x), as_pair(c, y)
    return c.call("and", c.call("eq", left.real, right.real), c.call("eq", left.imag, right.imag))


_COMPLEX: Final[dict[str, Rule]] = {
    "add": _add,
    "sub": _sub,
    "rsub": lambda c, x, y, alpha=1: _sub(c, y, x, alpha),
    "mul": _mul,
    "div": _div,
    "neg": lambda c, x: Pair(c.call("neg", x.real), c.call("neg", x.imag)),
    "abs": _abs,
    "reciprocal": _reciprocal,
    "sgn": _sgn,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
    "sinh": lambda c, x: _turned(c, _sin(c, _turned(c, x, 1)), -1),
    "cosh": lambda c, x: _cos(c, _turned(c, x, 1)),
    "tanh": lambda c, x: _div(c, _COMPLEX["sinh"](c, x), _COMPLEX["cosh"](c, x)),
    "square": lambda c, x: _mul(c, x, x),
    "pow": _pow,
    "eq": lambda c, x, y: _equal(c, x, y),
    "ne": lambda c, x, y: c.call("not", _equal(c, x, y)),
    "isfinite": lambda c, x: c.call("and", c.call("isfinite", x.real), c.call("isfinite", x.imag)),
}


@aten("complex", "view_as_complex")
def complex_of(c: Context, real: Any, imag: Value | None = None) -> Pair:
    if imag is not None:
        return Pair(*c.together(real, imag))
    axis = len(c.shape(real)) - 1
    halves = (c.cut(real, axis, part, part + 1) for part in (0, 1))
    return Pair(*(c.reshape(half, c.shape(real)[:-1]) for half in halves))


@aten("view_as_real")
def view_as_real(c: Context, x: Pair) -> Value:
    shape = (*c.shape(x.real), 1)
    return c.concat([c.reshape(x.real, shape), c.reshape(x.imag, shape)], len(shape) - 1)


@aten("real")
def real(c: Context, x: Any) -> Value:
    return x.real if isinstance(x, Pair) else x


@aten("imag")
def imag(c: Context, x: Any) -> Value:
    if not isinstance(x, Pair):
        raise Unsupported("imag of a real tensor")
    return x.imag


@aten("_conj", "conj", "_conj_physical", "conj_physical")
def conj(c: Context, x: Any) -> Any:
    return Pair(x.real, c.call("neg", x.imag)) if isinstance(x, Pair) else x


@aten("resolve_neg", "resolve_conj")
def resolved(c: Context, x: Any) -> Any:
    return x


@aten("angle")
def angle(c: Context, x: Any) -> Value:
    if isinstance(x, Pair):
        return c.call("atan2", x.imag, x.real)
    zero, half = c.number(0.0, c.dtype(x)), c.number(3.141592653589793, c.dtype(x))
    return c.call("where", c.call("lt", x, zero), half, zero)


@aten("polar")
def polar(c: Context, size: Value, turn: Value) -> Pair:
    return Pair(
        c.formula((size, turn), lambda f, r, t: f.call("mul", r, f.call("cos", t))),
        c.formula((size, turn), lambda f, r, t: f.call("mul", r, f.call("sin", t))),
    )
