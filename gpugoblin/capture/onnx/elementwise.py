"""Elementwise operators of ONNX.

Owns: one small function or table entry for each. Source: the operator schemas of ai.onnx, opset 7
to 26.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import gpugoblin as gg
from gpugoblin.capture import nn
from gpugoblin.capture.array import Array, binary
from gpugoblin.capture.elementwise import elementwise, select
from gpugoblin.capture.onnx.node import Call, Handler
from gpugoblin.capture.onnx.types import catalog_name

__all__ = ["HANDLERS"]


def _unary(name: str) -> Handler:
    return lambda call: Array(elementwise(name, (call.array(0).value,), call.place))


def _binary(name: str) -> Handler:
    return lambda call: binary(name, call.array(0), call.array(1))


def _fold(function: Callable[[Any, Any], Array]) -> Handler:
    return lambda call: functools.reduce(function, [one for one in call.inputs if one is not None])


def _divide(call: Call) -> Array:
    left, right = call.array(0), call.array(1)
    if left.dtype.kind == "f":
        return left / right
    return binary("truncdiv", left, right)


def _modulo(call: Call) -> Array:
    return binary("fmod" if call.get("fmod", 0) else "mod", call.array(0), call.array(1))


def _power(call: Call) -> Array:
    base, exponent = call.array(0), call.array(1)
    if base.dtype == exponent.dtype:
        return binary("pow", base, exponent)
    return binary("pow", base.astype("float32"), exponent.astype("float32")).astype(base.dtype)


def _mean(call: Call) -> Array:
    arrays = [one for one in call.inputs if one is not None]
    return functools.reduce(gg.add, arrays) / float(len(arrays))


def _clip(call: Call) -> Array:
    found = call.array(0)
    low, high = call.optional(1), call.optional(2)
    low = call.get("min") if low is None else low
    high = call.get("max") if high is None else high
    if low is not None:
        found = binary("max", found, low)
    return found if high is None else binary("min", found, high)


def _cast(call: Call) -> Array:
    return call.array(0).astype(catalog_name(call.get("to"), call))


def _cast_like(call: Call) -> Array:
    return call.array(0).astype(call.array(1).dtype)


def _is_infinite(call: Call) -> Array:
    x = call.array(0)
    up, down = call.get("detect_positive", 1), call.get("detect_negative", 1)
    if up and down:
        return gg.isinf(x)
    if not (up or down):
        return gg.zeros_like(x, dtype="bool")
    return gg.equal(x, gg.inf if up else -gg.inf)


def _shift(call: Call) -> Array:
    left = call.get("direction") == "LEFT"
    return binary("shl" if left else "shr", call.array(0), call.array(1))


def _selu(call: Call) -> Array:
    alpha, gamma = call.get("alpha", 1.6732632423543772), call.get("gamma", 1.0507009873554805)
    return gg.multiply(nn.elu(call.array(0), alpha), gamma)


def _celu(call: Call) -> Array:
    x, alpha = call.array(0), call.get("alpha", 1.0)
    return gg.maximum(x, 0.0) + gg.minimum(gg.expm1(x / alpha) * alpha, 0.0)


def _hard_sigmoid(call: Call) -> Array:
    found = call.array(0) * call.get("alpha", 0.2) + call.get("beta", 0.5)
    return gg.clip(found, 0.0, 1.0)


def _hard_swish(call: Call) -> Array:
    x = call.array(0)
    return x * gg.clip(x * (1 / 6) + 0.5, 0.0, 1.0)


def _thresholded(call: Call) -> Array:
    x = call.array(0)
    return gg.where(x > call.get("alpha", 1.0), x, 0.0)


def _prelu(call: Call) -> Array:
    x = call.array(0)
    return gg.where(x < 0, x * call.array(1), x)


def _shrink(call: Call) -> Array:
    x, bias, edge = call.array(0), call.get("bias", 0.0), call.get("lambd", 0.5)
    return gg.where(x < -edge, x + bias, gg.where(x > edge, x - bias, 0.0))


def _gelu(call: Call) -> Array:
    return nn.gelu(call.array(0), approximation=call.get("approximate", "none"))


def _mish(call: Call) -> Array:
    x = call.array(0)
    return x * gg.tanh(nn.softplus(x))


def _swish(call: Call) -> Array:
    x, alpha = call.array(0), call.get("alpha", 1.0)
    return nn.silu(x) if alpha == 1.0 else x * gg.sigmoid(x * alpha)


def _where(call: Call) -> Array:
    condition, yes, no = (call.array(number) for number in range(3))
    return Array(select(condition.value, yes.value, no.value, call.place))


def _softsign(call: Call) -> Array:
    x = call.array(0)
    return x / (gg.abs(x) + 1.0)


_NAMES: Final = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "not", "Ceil": "ceil", "Cos": "cos",
    "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "IsNaN": "isnan", "Log": "log",
    "Neg": "neg", "Not": "not", "Reciprocal": "recip", "Round": "round", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_PAIRS: Final = {
    "Add": "add", "And": "and", "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor",
    "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le",
    "Mul": "mul", "Or": "or", "Sub": "sub", "Xor": "xor",
}  # fmt: skip

HANDLERS: Final[dict[str, Handler]] = {
    **{name: _unary(scalar) for name, scalar in _NAMES.items()},
    **{name: _binary(scalar) for name, scalar in _PAIRS.items()},
    "BitShift": _shift,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Celu": _celu,
    "Clip": _clip,
    "Div": _divide,
    "Elu": lambda call: nn.elu(call.array(0), call.get("alpha", 1.0)),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "IsInf": _is_infinite,
    "LeakyRelu": lambda call: nn.leaky_relu(call.array(0), call.get("alpha", 0.01)),
    "Max": _fold(gg.maximum),
    "Mean": _mean,
    "Min": _fold(gg.minimum),
    "Mish": _mish,
    "Mod": _modulo,
    "PRelu": _prelu,
    "Pow": _power,
    "Relu": lambda call: nn.relu(call.array(0)),
    "Selu": _selu,
    "Shrink": _shrink,
    "Softplus": lambda call: nn.softplus(call.array(0)),
    "Softsign": _softsign,
    "Sum": _fold(gg.add),
    "Swish": _swish,
    "ThresholdedRelu": _thresholded,
    "Where": _where,
}
"""Operator -> its handler."""
