"""Elementwise primitives of JAX. Owns: one table entry or small function for each."""

from __future__ import annotations

from typing import Final

import gpugoblin as gg
from gpugoblin.capture.applying import apply
from gpugoblin.capture.array import Array, binary
from gpugoblin.capture.elementwise import cast, elementwise, select
from gpugoblin.capture.expression import Value
from gpugoblin.capture.jax.call import Call, Handler
from gpugoblin.catalog.composites.custom import stopping
from gpugoblin.catalog.spec import FLOATS

__all__ = ["HANDLERS"]


def _scalar(name: str) -> Handler:
    def handle(call: Call) -> Array:
        return Array(elementwise(name, [one.value for one in call.operands], call.place))

    return handle


_ROUNDED: Final = {(8, 7): gg.round_bfloat16, (5, 10): gg.round_float16}
"""By bits of exponent and mantissa."""


def _divide(call: Call) -> Array:
    name = "div" if call.array(0).dtype.kind == "f" else "truncdiv"
    return binary(name, call.array(0), call.array(1))


def _whole_power(call: Call) -> Array:
    x, y = call.array(0), call["y"]
    if y == 0:
        return gg.ones_like(x)
    found, factor, rest = None, x, abs(y)
    while rest:
        if rest & 1:
            found = factor if found is None else found * factor
        rest >>= 1
        factor = factor * factor if rest else factor
    power = x if found is None else found
    return power if y > 0 else gg.reciprocal(power)


def _select(call: Call) -> Array:
    which, *cases = call.operands
    if len(cases) != 2 or which.dtype.kind != "b":
        raise call.refused("it chooses among more than two", "Use jnp.where.")
    return Array(select(which.value, cases[1].value, cases[0].value, call.place))


def _convert(call: Call) -> Array:
    return Array(cast(call.array(0).value, call.dtypes[0], call.place))


def _clamp(call: Call) -> Array:
    low, x, high = call.operands
    return binary("min", binary("max", x, low), high)


def _round(call: Call) -> Array:
    """To even, or (method 0) away from zero where both are as near."""
    x = call.array(0)
    if int(call["rounding_method"]) == 1:
        return gg.round(x)
    return gg.copysign(gg.floor(gg.abs(x) + 0.5), x)


def _reduced(call: Call) -> Array:
    """Rounded to floats of so many bits: those that the catalog knows."""
    x, bits = call.array(0), (int(call["exponent_bits"]), int(call["mantissa_bits"]))
    if bits == {"float32": (8, 23), "float64": (11, 52)}.get(x.value.spec.dtype):
        return x
    if x.value.spec.dtype == "float32" and bits in _ROUNDED:
        return _ROUNDED[bits](x)
    cause = f"it rounds to {bits[0]} bits of exponent and {bits[1]} of mantissa"
    raise call.refused(cause, "Round to bfloat16 (8, 7) or float16 (5, 10).")


def _stop(call: Call) -> Array:
    x = call.array(0)
    if x.value.spec.dtype not in FLOATS:
        return x
    given = stopping(x.value.spec)
    return Array(Value(apply("custom_gradient", [x.value], call.place, **given), 0))


def _square(call: Call) -> Array:
    return call.array(0) * call.array(0)


_NAMES: Final = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "add": "add", "add_any": "add", "and": "and",
    "asin": "asin", "asinh": "asinh", "atan": "atan", "atan2": "atan2", "atanh": "atanh",
    "cbrt": "cbrt", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "digamma": "digamma",
    "eq": "eq", "erf": "erf", "erf_inv": "erfinv", "erfc": "erfc", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "floor": "floor", "ge": "ge", "gt": "gt", "is_finite": "isfinite",
    "le": "le", "lgamma": "lgamma", "log": "log", "log1p": "log1p", "logistic": "sigmoid",
    "lt": "lt", "max": "max", "min": "min", "mul": "mul", "ne": "ne", "neg": "neg",
    "nextafter": "nextafter", "not": "not", "or": "or", "population_count": "popcount",
    "pow": "pow", "rem": "fmod", "rsqrt": "rsqrt", "shift_left": "shl",
    "shift_right_arithmetic": "shr", "shift_right_logical": "ushr", "sign": "sign", "sin": "sin",
    "sinh": "sinh", "sqrt": "sqrt", "sub": "sub", "tan": "tan", "tanh": "tanh", "xor": "xor",
}  # fmt: skip
_SAME: Final = (
    "copy", "copy_p", "device_put", "optimization_barrier", "pvary", "real", "sharding_constraint",
)  # fmt: skip

HANDLERS: Final[dict[str, Handler]] = {
    **{name: _scalar(scalar) for name, scalar in _NAMES.items()},
    **{name: (lambda call: tuple(call.operands)) for name in _SAME},
    "clamp": _clamp,
    "convert_element_type": _convert,
    "div": _divide,
    "integer_pow": _whole_power,
    "reduce_precision": _reduced,
    "round": _round,
    "select_n": _select,
    "square": _square,
    "stop_gradient": _stop,
}
"""Primitive -> its handler."""
