"""Tensors that are made, copied or cast, and random numbers. Owns: those ATen operators.

Random numbers come from the catalog's counter, with a key that is an input of the graph: they are
other numbers than torch's, and the same ones on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.families.complexes import as_pair, eachwise
from gpugoblin.capture.torch.library import HALVES, dtype_name
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Pair, Scalar, Value

__all__ = ["draw"]


@aten(
    *(
        "clone",
        "alias",
        "lift_fresh_copy",
        "lift_fresh",
        "lift",
        "contiguous",
        "positive",
    ),
    *("alias_copy", "view_of"),
)
def same(c: Context, x: Any, **_: Any) -> Any:
    return x


@aten("detach")
@eachwise
def detach(c: Context, x: Value) -> Value:
    return c.stopped(x)


@aten("_to_copy", "to", "type_as")
def to_copy(c: Context, x: Any, *given: Any, dtype: object = None, **_: Any) -> Any:
    name = None if dtype is None else dtype_name(dtype)
    if name is None:
        name = next((dtype_name(one) for one in given if str(one).startswith("torch.")), None)
    if name is None or not (name in ("bool",) or name[-1].isdigit()):
        return x
    if name.startswith("complex"):
        return as_pair(c, x)
    if isinstance(x, Pair):
        x = x.real
    return c.halved(x, name) if name in HALVES else c.cast(x, c.catalog_dtype(name))


@aten("convert_element_type")
def convert(c: Context, x: Any, dtype: object) -> Any:
    return to_copy(c, x, dtype=dtype)


@aten("copy")
def copy(c: Context, x: Any, source: Any, non_blocking: bool = False) -> Any:
    if isinstance(x, Pair):
        pair = as_pair(c, source)
        return Pair(copy(c, x.real, pair.real), copy(c, x.imag, pair.imag))
    return c.spread(c.cast(source, c.dtype(x)), c.shape(x))


@aten("fill")
def fill(c: Context, x: Value, value: Any) -> Value:
    return c.spread(c.as_value(value, c.dtype(x)), c.shape(x))


def _filled(c: Context, shape: Sequence[int], value: Scalar | complex, dtype: object) -> Any:
    wanted = [int(extent) for extent in shape]
    if (dtype is not None and dtype_name(dtype).startswith("complex")) or isinstance(
        value, complex
    ):
        given = complex(value)
        return Pair(
            c.filled(wanted, given.real, "float32"), c.filled(wanted, given.imag, "float32")
        )
    if dtype is not None:
        name = c.catalog_dtype(dtype)
    else:
        kinds = {bool: "bool", int: "int64"}
        name = kinds.get(type(value)) or c.default_float()
    return c.filled(wanted, value, name)


@aten("full", "new_full")
def full(c: Context, *given: Any, dtype: object = None, **_: Any) -> Any:
    """`full(size, value)` and `new_full(self, size, value)`."""
    *like, shape, value = given
    if like and dtype is None:
        dtype = c.dtype(like[0])
    if isinstance(value, Value):
        return c.spread(c.cast(value, c.catalog_dtype(dtype)) if dtype else value, shape)
    return _filled(c, shape, value, dtype)


@aten("full_like")
def full_like(c: Context, x: Any, value: Scalar, dtype: object = None, **_: Any) -> Any:
    return _like(c, x, value, dtype)


def _like(c: Context, x: Any, value: Scalar, dtype: object) -> Any:
    if isinstance(x, Pair) and dtype is None:
        return _filled(c, c.shape(x.real), value, "complex64")
    if isinstance(x, Pair):
        x = x.real
    return _filled(c, c.shape(x), value, c.dtype(x) if dtype is None else dtype)


@aten("zeros_like", "empty_like")
def zeros_like(c: Context, x: Any, dtype: object = None, **_: Any) -> Any:
    return _like(c, x, 0, dtype)


@aten("ones_like")
def ones_like(c: Context, x: Any, dtype: object = None, **_: Any) -> Any:
    return _like(c, x, 1, dtype)


@aten("zeros", "empty", "empty_permuted", "_efficientzerotensor", "empty_strided")
def zeros(c: Context, shape: Sequence[int], *rest: Any, dtype: object = None, **_: Any) -> Any:
    return _filled(c, shape, 0.0, c.default_float() if dtype is None else dtype)


@aten("ones")
def ones(c: Context, shape: Sequence[int], *rest: Any, dtype: object = None, **_: Any) -> Any:
    return _filled(c, shape, 1.0, c.default_float() if dtype is None else dtype)


@aten("new_zeros", "new_empty", "new_empty_strided")
def new_zeros(
    c: Context, x: Any, shape: Sequence[int], *rest: Any, dtype: object = None, **_: Any
) -> Any:
    if isinstance(x, Pair):
        return _filled(c, shape, 0, "complex64" if dtype is None else dtype)
    return _filled(c, shape, 0, c.dtype(x) if dtype is None else dtype)


@aten("new_ones")
def new_ones(c: Context, x: Value, shape: Sequence[int], dtype: object = None, **_: Any) -> Any:
    return _filled(c, shape, 1, c.dtype(x) if dtype is None else dtype)


@aten("scalar_tensor")
def scalar_tensor(c: Context, value: Any, dtype: object = None, **_: Any) -> Any:
    if isinstance(value, Value):
        return value if dtype is None else c.cast(value, c.catalog_dtype(dtype))
    return _filled(c, (), value, dtype)


@aten("arange")
def arange(c: Context, *given: Scalar, dtype: object = None, **_: Any) -> Value:
    start, end, step = _bounds(given)
    whole = all(isinstance(one, int) for one in (start, end, step))
    name = c.catalog_dtype(dtype) if dtype is not None else "int64" if whole else c.default_float()
    count = max(0, math.ceil((end - start) / step))
    line = c.iota(count, name)
    if step != 1:
        line = c.call("mul", line, c.number(step, name))
    return line if start == 0 else c.call("add", line, c.number(start, name))


def _bounds(given: Sequence[Scalar]) -> tuple[Scalar, Scalar, Scalar]:
    if len(given) == 1:
        return 0, given[0], 1
    return given[0], given[1], given[2] if len(given) > 2 else 1


@aten("linspace")
def linspace(c: Context, start: Any, end: Any, steps: int, dtype: object = None, **_: Any) -> Value:
    """From both ends to the middle, as torch does, so that the last number is exact."""
    name = c.default_float() if dtype is None else c.catalog_dtype(dtype)
    first, last = c.as_value(start, name), c.as_value(end, name)
    if steps == 1:
        return c.reshape(first, (1,))
    step = c.call("div", c.call("sub", last, first), c.number(float(steps - 1), name))
    up = c.iota(steps, name)
    down = c.call("sub", c.number(float(steps - 1), name), up)
    low = c.call("add", first, c.call("mul", up, step))
    high = c.call("sub", last, c.call("mul", down, step))
    half = c.call("lt", up, c.number(float(steps // 2), name))
    return c.call("where", half, low, high)


@aten("eye")
def eye(c: Context, rows: int, columns: Any = None, dtype: object = None, **_: Any) -> Value:
    wide = columns if isinstance(columns, int) else rows
    name = c.default_float() if dtype is None else c.catalog_dtype(dtype)
    same_place = c.call("eq", c.reshape(c.iota(rows), (rows, 1)), c.iota(wide))
    return c.cast(same_place, name)


@aten("tril_indices")
def tril_indices(c: Context, rows: int, columns: int, offset: int = 0, **_: Any) -> Value:
    return c.constant(np.stack(np.tril_indices(rows, offset, columns)))


@aten("triu_indices")
def triu_indices(c: Context, rows: int, columns: int, offset: int = 0, **_: Any) -> Value:
    return c.constant(np.stack(np.triu_indices(rows, offset, columns)))


# random


def draw(c: Context, function: str, shape: Sequence[int]) -> Value:
    """Numbers of one stream: each draw of a program has its own."""
    if c.key is None:
        raise Unsupported("random numbers inside a loop's body")
    key = Value(c.key())
    stream = c.op("concat", [c.constant(_line(0)), c.constant(_line(c.draws))], axis=0)
    c.draws += 1
    return c.op("random", [c.call("add", key, stream)], function=function, shape=tuple(shape))


def _line(value: int) -> Any:
    return np.array([value], np.int64)


@aten("rand")
def rand(c: Context, shape: Sequence[int], **_: Any) -> Value:
    return draw(c, "uniform", shape)


@aten("randn")
def randn(c: Context, shape: Sequence[int], **_: Any) -> Value:
    return draw(c, "normal", shape)


@aten("rand_like")
def rand_like(c: Context, x: Value, **_: Any) -> Value:
    return draw(c, "uniform", c.shape(x))


@aten("randn_like")
def randn_like(c: Context, x: Value, **_: Any) -> Value:
    return draw(c, "normal", c.shape(x))


@aten("randint")
def randint(c: Context, *given: Any, dtype: object = None, **_: Any) -> Value:
    *bounds, shape = given
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
    share = draw(c, "uniform", shape)
    spread = c.call("floor", c.call("mul", share, c.number(float(high - low), "float32")))
    whole = c.cast(spread, "int64")
    return c.call("add", whole, c.number(low, "int64"))


@aten("uniform")
def uniform(c: Context, x: Value, low: float = 0.0, high: float = 1.0, **_: Any) -> Value:
    share = draw(c, "uniform", c.shape(x))
    numbers = (c.number(high - low, "float32"), c.number(low, "float32"))
    return c.formula((share, *numbers), lambda f, u, w, s: f.call("add", f.call("mul", u, w), s))


@aten("normal_functional", "normal")
def normal(c: Context, x: Any, mean: float = 0.0, std: float = 1.0, *rest: Any, **_: Any) -> Value:
    shape = c.shape(x) if isinstance(x, Value) else rest[0]
    numbers = (c.number(std, "float32"), c.number(mean, "float32"))
    line = draw(c, "normal", shape)
    return c.formula((line, *numbers), lambda f, u, w, s: f.call("add", f.call("mul", u, w), s))


@aten("bernoulli")
def bernoulli(c: Context, x: Value, p: float | None = None, **_: Any) -> Value:
    chance = x if p is None else c.number(p, "float32")
    taken = c.call("lt", draw(c, "uniform", c.shape(x)), chance)
    return c.cast(taken, c.dtype(x))


@aten("native_dropout")
def native_dropout(
    c: Context, x: Value, p: float, train: bool | None = True
) -> tuple[Value, Value]:
    if not train or p == 0:
        return x, c.filled(c.shape(x), True, "bool")
    kept = c.call("ge", draw(c, "uniform", c.shape(x)), c.number(p, "float32"))
    scale = c.number(0.0 if p >= 1 else 1.0 / (1.0 - p), c.dtype(x))
    zero = c.number(0.0, c.dtype(x))
    scaled = c.formula(
        (kept, x, scale, zero), lambda f, k, a, s, z: f.call("where", k, f.call("mul", a, s), z)
    )
    return scaled, kept


@aten("dropout")
def dropout(c: Context, x: Value, p: float, train: bool) -> Value:
    return native_dropout(c, x, p, train)[0]


@aten("zero")
@eachwise
def zero(c: Context, x: Value) -> Value:
    return c.filled(c.shape(x), 0, c.dtype(x))
