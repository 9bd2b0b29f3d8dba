"""Activations: what networks put between their layers. Owns: those ATen operators.

Every branch that `where` does not take is kept finite, as a derivative of infinity times zero is
NaN; and edges fall on the side whose derivative torch gives.
"""

from __future__ import annotations

from gpugoblin.capture.torch.context import Context, normal_axis
from gpugoblin.capture.torch.families.arithmetic import mul
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Scalar, Value
from gpugoblin.catalog.formula_build import FormulaBuilder

__all__ = ["log_softmax", "softmax"]


def _negative(f: FormulaBuilder, x: int, zero: int) -> int:
    """x where it is not above 0, else 0."""
    return f.call("where", f.call("gt", x, zero), zero, x)


@aten("relu")
def relu(c: Context, x: Value) -> Value:
    zero = c.number(0, c.dtype(x))
    return c.formula((x, zero), lambda f, a, z: f.call("where", f.call("le", a, z), z, a))


@aten("threshold")
def threshold(c: Context, x: Value, edge: Scalar, value: Scalar) -> Value:
    operands = (x, c.number(edge, c.dtype(x)), c.number(value, c.dtype(x)))
    return c.formula(operands, lambda f, a, e, v: f.call("where", f.call("le", a, e), v, a))


@aten("hardtanh")
def hardtanh(c: Context, x: Value, low: Scalar = -1.0, high: Scalar = 1.0) -> Value:
    operands = (x, c.number(low, c.dtype(x)), c.number(high, c.dtype(x)))

    def write(f: FormulaBuilder, a: int, least: int, most: int) -> int:
        inner = f.call("where", f.call("ge", a, most), most, a)
        return f.call("where", f.call("le", a, least), least, inner)

    return c.formula(operands, write)


@aten("relu6")
def relu6(c: Context, x: Value) -> Value:
    return hardtanh(c, x, 0.0, 6.0)


@aten("hardsigmoid")
def hardsigmoid(c: Context, x: Value) -> Value:
    numbers = (c.number(one, c.dtype(x)) for one in (0.0, 1.0, 3.0, 6.0))

    def write(f: FormulaBuilder, a: int, zero: int, one: int, three: int, six: int) -> int:
        inner = f.call("div", f.call("add", a, three), six)
        inner = f.call("where", f.call("ge", a, three), one, inner)
        return f.call("where", f.call("le", a, f.call("neg", three)), zero, inner)

    return c.formula((x, *numbers), write)


@aten("hardswish")
def hardswish(c: Context, x: Value) -> Value:
    numbers = (c.number(one, c.dtype(x)) for one in (0.0, 3.0, 6.0))

    def write(f: FormulaBuilder, a: int, zero: int, three: int, six: int) -> int:
        inner = f.call("div", f.call("mul", a, f.call("add", a, three)), six)
        inner = f.call("where", f.call("ge", a, three), a, inner)
        return f.call("where", f.call("le", a, f.call("neg", three)), zero, inner)

    return c.formula((x, *numbers), write)


@aten("leaky_relu")
def leaky_relu(c: Context, x: Value, slope: Scalar = 0.01) -> Value:
    return prelu(c, x, c.number(slope, c.dtype(x)))


@aten("_prelu_kernel")
def prelu(c: Context, x: Value, weight: Value) -> Value:
    zero = c.number(0.0, c.dtype(x))

    def write(f: FormulaBuilder, a: int, w: int, z: int) -> int:
        return f.call("where", f.call("gt", a, z), a, f.call("mul", a, w))

    return c.formula((x, weight, zero), write)


@aten("elu")
def elu(
    c: Context, x: Value, alpha: Scalar = 1.0, scale: Scalar = 1.0, input_scale: Scalar = 1.0
) -> Value:
    numbers = (c.number(one, c.dtype(x)) for one in (0.0, alpha * scale, scale, input_scale))

    def write(f: FormulaBuilder, a: int, z: int, low: int, high: int, inner: int) -> int:
        bent = f.call("expm1", f.call("mul", _negative(f, a, z), inner))
        return f.call("where", f.call("gt", a, z), f.call("mul", a, high), f.call("mul", bent, low))

    return c.formula((x, *numbers), write)


@aten("celu")
def celu(c: Context, x: Value, alpha: Scalar = 1.0) -> Value:
    return elu(c, x, alpha, 1.0, 1.0 / alpha)


@aten("softplus")
def softplus(c: Context, x: Value, beta: Scalar = 1, edge: Scalar = 20) -> Value:
    numbers = (c.number(float(one), c.dtype(x)) for one in (beta, edge, 0.0))

    def write(f: FormulaBuilder, a: int, steep: int, most: int, zero: int) -> int:
        scaled = f.call("mul", a, steep)
        above = f.call("gt", scaled, most)
        safe = f.call("where", above, zero, scaled)
        bent = f.call("div", f.call("log1p", f.call("exp", safe)), steep)
        return f.call("where", above, a, bent)

    return c.formula((x, *numbers), write)


@aten("log_sigmoid_forward")
def log_sigmoid_forward(c: Context, x: Value) -> tuple[Value, Value]:
    return log_sigmoid(c, x), x


@aten("log_sigmoid")
def log_sigmoid(c: Context, x: Value) -> Value:
    """min(x, 0) - log(1 + exp(-|x|)), with the derivative sigmoid(-x) everywhere."""
    zero = c.number(0.0, c.dtype(x))

    def write(f: FormulaBuilder, a: int, z: int) -> int:
        below = f.call("lt", a, z)
        size = f.call("where", below, a, f.call("neg", a))
        tail = f.call("log1p", f.call("exp", size))
        return f.call("sub", f.call("where", below, a, z), tail)

    return c.formula((x, zero), write)


@aten("mish")
def mish(c: Context, x: Value) -> Value:
    return mul(c, x, c.call("tanh", softplus(c, x)))


@aten("gelu")
def gelu(c: Context, x: Value, approximate: str = "none") -> Value:
    return c.op("gelu", [x], approximation=approximate)


@aten("silu")
def silu(c: Context, x: Value) -> Value:
    return c.op("silu", [x])


@aten("_softmax", "softmax.int")
def softmax(c: Context, x: Value, dim: int, dtype: object = None) -> Value:
    return _along("softmax", c, x, dim, dtype)


@aten("_log_softmax", "log_softmax.int")
def log_softmax(c: Context, x: Value, dim: int, dtype: object = None) -> Value:
    return _along("log_softmax", c, x, dim, dtype)


def _along(operator: str, c: Context, x: Value, dim: int, dtype: object) -> Value:
    if dtype is not None and not isinstance(dtype, bool):
        x = c.cast(x, c.catalog_dtype(dtype))
    shape = c.shape(x)
    if not shape:
        x = c.reshape(x, (1,))
    return c.reshape(c.op(operator, [x], axis=normal_axis(dim, len(shape))), shape)


@aten("_safe_softmax")
def safe_softmax(c: Context, x: Value, dim: int, dtype: object = None) -> Value:
    """softmax, and zeros where a whole row is -infinity."""
    axis = normal_axis(dim, len(c.shape(x)))
    zero, least = c.number(0.0, c.dtype(x)), c.number(float("-inf"), c.dtype(x))
    seen = c.call("gt", c.reduce("max", x, (axis,), keepdims=True), least)
    found = softmax(c, c.call("where", seen, x, zero), axis, dtype)
    return c.call("where", seen, found, zero)
