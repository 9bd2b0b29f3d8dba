"""`gg.nn`: the layers of neural networks that the catalog has as operators.

Owns: their arguments. Each is one operator of the catalog, so that a backend may compute it with
one kernel; what it means stands in docs/reference/operators.md. Each takes lazy arrays or ndarrays
of float32 and raises `CaptureError` with the researcher's line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from gpugoblin.capture import products, reducing, shaping, windowing
from gpugoblin.capture.applying import apply, refused
from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.elementwise import cast, elementwise, literal, select
from gpugoblin.capture.expression import Value
from gpugoblin.capture.picking import iota
from gpugoblin.catalog.spec import AttrValue

__all__ = [
    "attention",
    "average_pool",
    "batch_norm",
    "conv",
    "cross_entropy",
    "elu",
    "gelu",
    "group_norm",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "mse",
    "one_hot",
    "relu",
    "rms_norm",
    "silu",
    "softmax",
    "softplus",
]


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """exp(x) over its sum along `axis`, from the largest element down so that nothing overflows."""
    return _along("softmax", x, axis, caller())


def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """The logarithm of softmax, made without it."""
    return _along("log_softmax", x, axis, caller())


def logsumexp(x: ArrayLike, *, axis: reducing.Axis = None, keepdims: bool = False) -> Array:
    """log(sum(exp(x))) over `axis`, from the largest element down so that nothing overflows."""
    place = caller()
    value = as_value(x, place)
    top = reducing.reduce("max", value, axis, True, place)
    finite = elementwise("isfinite", (top,), place)
    base = select(finite, top, 0.0, place)
    powers = elementwise("exp", (elementwise("sub", (value, base), place),), place)
    total = elementwise("log", (reducing.reduce("sum", powers, axis, True, place),), place)
    found = elementwise("add", (total, base), place)
    if keepdims:
        return Array(found)
    return Array(shaping.reshape(found, reducing.kept_shape(value, axis, place), place))


def relu(x: ArrayLike) -> Array:
    """x above 0, else 0; its derivative at 0 is 0."""
    place = caller()
    value = as_value(x, place)
    return Array(select(elementwise("le", (value, 0.0), place), 0.0, value, place))


def leaky_relu(x: ArrayLike, slope: float = 0.01) -> Array:
    """x above 0, else x times `slope`."""
    place = caller()
    value = as_value(x, place)
    low = elementwise("mul", (value, slope), place)
    return Array(select(elementwise("gt", (value, 0.0), place), value, low, place))


def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """x above 0, else `alpha` (exp(x) - 1)."""
    place = caller()
    value = as_value(x, place)
    low = elementwise("mul", (elementwise("expm1", (value,), place), alpha), place)
    return Array(select(elementwise("gt", (value, 0.0), place), value, low, place))


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), which neither overflows nor vanishes early."""
    place = caller()
    value = as_value(x, place)
    distance = elementwise("neg", (elementwise("abs", (value,), place),), place)
    more = elementwise("log1p", (elementwise("exp", (distance,), place),), place)
    return Array(elementwise("add", (elementwise("max", (value, 0.0), place), more), place))


def silu(x: ArrayLike) -> Array:
    """x sigmoid(x)."""
    place = caller()
    return Array(Value(apply("silu", [as_value(x, place)], place), 0))


def gelu(x: ArrayLike, *, approximation: Literal["none", "tanh"] = "none") -> Array:
    """x times the normal distribution function of x, or its approximation by tanh."""
    place = caller()
    node = apply("gelu", [as_value(x, place)], place, approximation=approximation)
    return Array(Value(node, 0))


def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """x weight^T + bias, with `weight` [outputs, inputs] as PyTorch has it."""
    place = caller()
    turned = shaping.transpose_last(as_value(weight, place), place)
    found = products.matmul(as_value(x, place), turned, place)
    if bias is None:
        return Array(found)
    return Array(elementwise("add", (found, as_value(bias, place)), place))


def layer_norm(
    x: ArrayLike,
    *,
    axes: int | Sequence[int] = -1,
    scale: ArrayLike | None = None,
    shift: ArrayLike | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """Mean 0 and variance 1 over `axes`, the variance raised by `epsilon`; then times `scale` and
    plus `shift`, which broadcast."""
    place = caller()
    value = as_value(x, place)
    attributes: dict[str, AttrValue] = {"axes": _axes("layer_norm", value, axes, place)}
    return _normed("layer_norm", value, epsilon, [], scale, shift, place, attributes)


def rms_norm(
    x: ArrayLike,
    *,
    axes: int | Sequence[int] = -1,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """x over the root of its mean square (raised by `epsilon`) over `axes`, times `scale`."""
    place = caller()
    value = as_value(x, place)
    attributes: dict[str, AttrValue] = {"axes": _axes("rms_norm", value, axes, place)}
    return _normed("rms_norm", value, epsilon, [], scale, None, place, attributes)


def group_norm(
    x: ArrayLike,
    groups: int,
    *,
    scale: ArrayLike | None = None,
    shift: ArrayLike | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """Mean 0 and variance 1 over groups of channels (axis 1) and the axes after it; `scale` and
    `shift` have one number a channel."""
    place = caller()
    value = as_value(x, place)
    return _normed("group_norm", value, epsilon, [], scale, shift, place, {"groups": groups})


def batch_norm(
    x: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    *,
    axis: int = 1,
    scale: ArrayLike | None = None,
    shift: ArrayLike | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """x less `mean` over the root of `variance` plus `epsilon`, one of each a channel."""
    place = caller()
    value = as_value(x, place)
    axis = shaping.normal_axis("batch_norm", value, axis, place)
    given = [as_value(mean, place), as_value(variance, place)]
    return _normed("batch_norm", value, epsilon, given, scale, shift, place, {"axis": axis})


def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """softmax(scale query key^T + mask) value, over the last two axes.

    Args:
        query: [..., m, d]. key: [..., n, d]. value: [..., n, e].
        mask: broadcasts against [..., m, n]; a float is added, bool says what is seen.
        causal: row i sees columns 0 to i.
        scale: 1 / sqrt(d) by itself.
    """
    place = caller()
    operands = [as_value(one, place) for one in (query, key, value)]
    width = operands[0].spec.shape[-1] if operands[0].spec.rank else 1
    factor = 1.0 / math.sqrt(max(1, width)) if scale is None else scale
    operands.append(literal(factor, operands[0].spec.dtype, place))
    if mask is not None:
        operands.append(as_value(mask, place))
    return Array(Value(apply("attention", operands, place, causal=causal), 0))


def cross_entropy(x: ArrayLike, labels: ArrayLike, *, axis: int = -1, ignored: int = -100) -> Array:
    """For each example the negative logarithm of softmax along `axis` at its label; 0 where the
    label is `ignored`. Take `.mean()` for a loss."""
    place = caller()
    value = as_value(x, place)
    axis = shaping.normal_axis("cross_entropy", value, axis, place)
    operands = [value, as_value(labels, place)]
    return Array(Value(apply("cross_entropy", operands, place, axis=axis, ignored=ignored), 0))


def mse(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The mean of the squares of the differences, a scalar."""
    place = caller()
    return Array(Value(apply("mse", [as_value(x1, place), as_value(x2, place)], place), 0))


def one_hot(labels: ArrayLike, classes: int) -> Array:
    """A new last axis of float32: 1 at the label, else 0."""
    place = caller()
    value = shaping.expand_dims(as_value(labels, place), -1, place)
    hit = elementwise("eq", (cast(value, "int64", place), iota(classes, place)), place)
    return Array(cast(hit, "float32", place))


def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    *,
    bias: ArrayLike | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Products of `kernel` [outputs, channels / groups, *extents] with the windows of `x`
    [examples, channels, *space], in 1 to 3 dimensions.

    Args:
        padding: zeros on both sides of each axis, or (before, after) for each.
    """
    place = caller()
    operands = [as_value(x, place), as_value(kernel, place)]
    found = windowing.conv(operands, stride, padding, dilation, groups, place)
    if bias is None:
        return Array(found)
    shape = (-1, *(1,) * (found.spec.rank - 2))
    more = shaping.reshape(as_value(bias, place), shape, place)
    return Array(elementwise("add", (found, more), place))


def max_pool(
    x: ArrayLike,
    window: Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
    dilation: int | Sequence[int] = 1,
) -> Array:
    """The largest elements of windows over the trailing axes; `stride` is `window` by itself."""
    place = caller()
    value = as_value(x, place)
    return Array(windowing.pool("max", value, tuple(window), stride, padding, dilation, place))


def average_pool(
    x: ArrayLike,
    window: Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
) -> Array:
    """The means of windows over the trailing axes, padded zeros counted."""
    place = caller()
    value = as_value(x, place)
    total = windowing.pool("sum", value, tuple(window), stride, padding, 1, place)
    return Array(elementwise("div", (total, float(math.prod(window))), place))


def _along(operator: str, x: ArrayLike, axis: int, place: Place) -> Array:
    value = as_value(x, place)
    axis = shaping.normal_axis(operator, value, axis, place)
    return Array(Value(apply(operator, [value], place, axis=axis), 0))


def _axes(operator: str, value: Value, axes: int | Sequence[int], place: Place) -> tuple[int, ...]:
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    return tuple(sorted(shaping.normal_axis(operator, value, axis, place) for axis in given))


def _normed(
    operator: str,
    value: Value,
    epsilon: float,
    given: Sequence[Value],
    scale: ArrayLike | None,
    shift: ArrayLike | None,
    place: Place,
    attributes: dict[str, AttrValue],
) -> Array:
    operands = [value, literal(epsilon, value.spec.dtype, place), *given]
    if scale is not None:
        operands.append(as_value(scale, place))
    if shift is not None and scale is None:
        raise refused(
            operator, [value], "there is a shift without a scale",
            "Add the shift yourself: gg.nn." + operator + "(x) + shift.", place,
        )  # fmt: skip
    if shift is not None:
        operands.append(as_value(shift, place))
    return Array(Value(apply(operator, operands, place, **attributes), 0))
