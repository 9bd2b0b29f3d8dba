"""Matrix products and attention. Owns: those ATen operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.families.arithmetic import add, mul
from gpugoblin.capture.torch.families.creation import dropout
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Pair, Scalar, Value

__all__ = ["matmul", "product"]


def product(c: Context, x: Any, y: Any) -> Any:
    """The product of the last two axes; batch axes are equal."""
    if isinstance(x, Pair) or isinstance(y, Pair):
        from gpugoblin.capture.torch.families.complexes import as_pair

        a, b = as_pair(c, x), as_pair(c, y)
        real = c.call("sub", product(c, a.real, b.real), product(c, a.imag, b.imag))
        return Pair(real, c.call("add", product(c, a.real, b.imag), product(c, a.imag, b.real)))
    return c.op("matmul", list(c.together(x, y)))


@aten("mm", "bmm")
def mm(c: Context, x: Any, y: Any, *dtype: Any) -> Any:
    return product(c, x, y)


@aten("addmm", "baddbmm")
def addmm(c: Context, bias: Any, x: Any, y: Any, beta: Scalar = 1, alpha: Scalar = 1) -> Any:
    found = product(c, x, y)
    if alpha != 1:
        found = mul(c, found, alpha)
    if beta == 0:
        return found
    return add(c, found, bias if beta == 1 else mul(c, bias, beta))


@aten("dot", "vdot", "inner")
def dot(c: Context, x: Any, y: Any) -> Any:
    return matmul(c, x, y)


@aten("mv")
def mv(c: Context, x: Any, y: Any) -> Any:
    return matmul(c, x, y)


@aten("addmv")
def addmv(c: Context, bias: Any, x: Any, y: Any, beta: Scalar = 1, alpha: Scalar = 1) -> Any:
    found = matmul(c, x, y)
    if alpha != 1:
        found = mul(c, found, alpha)
    return add(c, found, bias if beta == 1 else mul(c, bias, beta))


def _shape(c: Context, x: Any) -> tuple[int, ...]:
    return c.shape(x.real if isinstance(x, Pair) else x)


def _as(c: Context, x: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(x, Pair):
        return Pair(_as(c, x.real, shape), _as(c, x.imag, shape))
    return c.reshape(x, shape) if c.spec(x).count == math.prod(shape) else c.spread(x, shape)


@aten("matmul")
def matmul(c: Context, x: Any, y: Any) -> Any:
    """NumPy's rules: lines get an axis that goes again, batch axes broadcast."""
    left, right = _shape(c, x), _shape(c, y)
    a = (1, *left) if len(left) == 1 else left
    b = (*right, 1) if len(right) == 1 else right
    batch = c.broadcast_shapes(a[:-2], b[:-2])
    found = product(
        c,
        _as(c, _as(c, x, a), (*batch, *a[-2:])),
        _as(c, _as(c, y, b), (*batch, *b[-2:])),
    )
    rows = () if len(left) == 1 else (a[-2],)
    columns = () if len(right) == 1 else (b[-1],)
    return _as(c, found, (*batch, *rows, *columns))


@aten("linear")
def linear(c: Context, x: Value, weight: Value, bias: Value | None = None) -> Value:
    shape = c.shape(x)
    rows = c.reshape(x, (math.prod(shape[:-1]), shape[-1]))
    found = c.op("matmul", list(c.together(rows, weight)), transpose_b=True)
    found = c.reshape(found, (*shape[:-1], c.shape(weight)[0]))
    return found if bias is None else c.call("add", found, bias)


# attention


@aten("scaled_dot_product_attention")
def attention(
    c: Context,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if enable_gqa:
        key, value = (_repeated(c, one, c.shape(query)[-3]) for one in (key, value))
    batch = c.broadcast_shapes(*(c.shape(one)[:-2] for one in (query, key, value)))
    query, key, value = (c.spread(one, (*batch, *c.shape(one)[-2:])) for one in (query, key, value))
    size = c.number(1.0 / math.sqrt(c.shape(query)[-1]) if scale is None else scale, "float32")
    if dropout_p:
        return _dropped(c, query, key, value, size, mask, is_causal, dropout_p)
    if mask is None:
        return c.op("attention", [query, key, value, size], causal=is_causal)
    seen, mask = _row_seen(c, mask)
    found = c.op("attention", [query, key, value, size, mask], causal=is_causal)
    return c.call("where", seen, found, c.number(0.0, "float32"))


def _row_seen(c: Context, mask: Value) -> tuple[Value, Value]:
    """torch gives zeros for a row that sees nothing; such a row is shown everything first."""
    axis = len(c.shape(mask)) - 1
    if c.dtype(mask) == "bool":
        seen = c.reduce("any", mask, (axis,), keepdims=True)
        return seen, c.call("or", mask, c.call("not", seen))
    least, zero = c.number(-math.inf, "float32"), c.number(0.0, "float32")
    seen = c.call("gt", c.reduce("max", mask, (axis,), keepdims=True), least)
    return seen, c.call("where", seen, mask, zero)


def _repeated(c: Context, x: Value, heads: int) -> Value:
    *batch, own, rows, columns = c.shape(x)
    if own == heads:
        return x
    grouped = c.reshape(x, (*batch, own, 1, rows, columns))
    whole = c.spread(grouped, (*batch, own, heads // own, rows, columns))
    return c.reshape(whole, (*batch, heads, rows, columns))


def _dropped(
    c: Context,
    query: Value,
    key: Value,
    value: Value,
    size: Value,
    mask: Any,
    causal: bool,
    p: float,
) -> Value:
    """In steps, as the weights between softmax and the product lose some."""
    scores = c.call("mul", c.op("matmul", [query, key], transpose_b=True), size)
    least = c.number(-math.inf, "float32")
    if mask is not None and c.dtype(mask) == "bool":
        scores = c.call("where", mask, scores, least)
    elif mask is not None:
        scores = c.call("add", scores, mask)
    if causal:
        rows, columns = c.shape(scores)[-2:]
        seen = c.call("ge", c.reshape(c.iota(rows), (rows, 1)), c.iota(columns))
        scores = c.call("where", seen, scores, least)
    weights = c.op("softmax", [scores], axis=len(c.shape(scores)) - 1)
    return c.op("matmul", [dropout(c, weights, p, True), value])


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    c: Context,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, None]:
    found = attention(c, query, key, value, attn_mask, dropout_p, is_causal, scale)
    return found, None


@aten("_scaled_dot_product_attention_math")
def math_attention(
    c: Context,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Value | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, None]:
    if dropout_mask is not None:
        raise Unsupported("attention with a given dropout mask")
    found = attention(c, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return found, None


@aten("_grouped_mm", "transformers.grouped_mm_fallback")
def grouped_mm(c: Context, x: Value, weight: Value, ends: Value | None = None, *_: Any) -> Value:
    """Rows in the order of their groups, which end at `ends`, times the matrix of the group."""
    if ends is None or len(c.shape(x)) != 2 or len(c.shape(weight)) != 3:
        raise Unsupported("grouped_mm but of rows [m, k] and matrices [g, k, n]")
    groups = c.shape(weight)[0]
    before = c.concat([c.filled((1,), 0, c.dtype(ends)), c.cut(ends, 0, 0, groups - 1)], 0)
    return c.op("grouped_matmul", [x, weight, c.call("sub", ends, before)])


@aten("_trilinear")
def trilinear(
    c: Context,
    x: Value,
    y: Value,
    z: Value,
    expand_x: Sequence[int],
    expand_y: Sequence[int],
    expand_z: Sequence[int],
    sum_over: Sequence[int],
    unroll_dim: int = 1,
) -> Value:
    """The product of three tensors with axes of 1 put in, summed over some axes."""
    first, second, third = (
        _with_axes(c, one, places) for one, places in ((x, expand_x), (y, expand_y), (z, expand_z))
    )
    whole = c.formula(
        (first, second, third), lambda f, a, b, d: f.call("mul", f.call("mul", a, b), d)
    )
    return c.reduce("sum", whole, sum_over)


def _with_axes(c: Context, x: Value, places: Sequence[int]) -> Value:
    shape = list(c.shape(x))
    for place in sorted(places):
        shape.insert(place, 1)
    return c.reshape(x, shape)
