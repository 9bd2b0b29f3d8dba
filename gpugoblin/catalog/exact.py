"""Class `exact`: what each primitive gives on float32, bit for bit, however it is cut.

Owns: the order of every sum, and which primitives have the class. Every result element is defined
by itself, so any cut along parallel axes gives the same bits; no index that is summed may be cut.

* A sum of n terms, in the row-major order of the axes that are summed: blocks of 512 from the first
  to the last, each added up from its first term on; then the sums of the blocks likewise.
* `matmul` and `conv` add rounded products in that order; conv's terms are channel by channel,
  within one the kernel's places in row-major order, padding included.
* `scan_reduce` is one chain; `pool` adds the window's places in row-major order to zero, `fold`
  likewise; `scatter` applies updates in their order.
* Maxima and minima that are zero are +0. Every NaN of a graph's result is 0x7FC00000.
* Scalar functions are those of `catalog/lowering.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.lowering import lower_formula
from gpugoblin.catalog.ops.convolution import conv_windows
from gpugoblin.catalog.ops.pooling import pool_windows
from gpugoblin.catalog.ops.scan import SCAN_FUNCTIONS
from gpugoblin.catalog.ops.sliding import fold_into, fold_windows
from gpugoblin.catalog.plain import evaluate_plain
from gpugoblin.catalog.primitives import PRIMITIVES
from gpugoblin.catalog.rules import bool_attribute, int_attribute, ints_attribute, text_attribute
from gpugoblin.catalog.spec import DTYPES, Array, Attributes
from gpugoblin.catalog.windows import padded, shifts

__all__ = [
    "EXACT_BLOCK",
    "EXACT_RULES",
    "canonical",
    "evaluate_exact",
    "has_exact",
    "ordered_products",
    "ordered_reduce",
]

EXACT_BLOCK: Final = 512
Rule = Callable[[Sequence[Array], Attributes], Array]

_UNROUNDED: Final = frozenset(
    {
        "broadcast@1", "cast@1", "concat@1", "flip@1", "gather@1", "iota@1", "pad@1", "permute@1",
        "reduce_arg@1", "reshape@1", "searchsorted@1", "slice@1", "topk@1", "update_slice@1",
        "window@1",
    }
)  # fmt: skip
"""Primitives without arithmetic on floats: their references are exact."""


def ordered_reduce(ufunc: np.ufunc, terms: Array) -> Array:
    """The last axis, which is not empty, in nested blocks of 512."""
    while terms.shape[-1] > 1:
        count = -(-terms.shape[-1] // EXACT_BLOCK)
        width = min(EXACT_BLOCK, terms.shape[-1])
        # x + -0.0 is x, of either zero, too; so is x * 1.
        neutral = -0.0 if ufunc is np.add else 1.0
        filled = np.full((*terms.shape[:-1], count * width), neutral, terms.dtype)
        filled[..., : terms.shape[-1]] = terms
        blocks = filled.reshape(*terms.shape[:-1], count, width)
        terms = ufunc.accumulate(blocks, axis=-1)[..., -1]
    return terms[..., 0]


def ordered_products(left: Array, right: Array) -> Array:
    """[..., m, k] times [..., k, n] in float32: each product rounded, added in nested blocks."""
    inner = left.shape[-1]
    shape = (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2])
    result = np.zeros((*shape, right.shape[-1]), np.float32)
    if inner == 0 or result.size == 0:
        return result
    parts = []
    for start in range(0, inner, EXACT_BLOCK):
        total = left[..., :, start, None] * right[..., None, start, :]
        product = np.empty_like(total)
        for place in range(start + 1, min(start + EXACT_BLOCK, inner)):
            np.multiply(left[..., :, place, None], right[..., None, place, :], out=product)
            np.add(total, product, out=total)
        parts.append(total)
    if len(parts) == 1:
        return parts[0]
    return ordered_reduce(np.add, np.stack(parts, axis=-1))


def _formula(inputs: Sequence[Array], attributes: Attributes) -> Array:
    tree = attributes["tree"]
    if not isinstance(tree, Formula):
        raise TypeError("the attribute tree of formula must be a Formula")
    names = {dtype: name for name, dtype in DTYPES.items()}
    result = evaluate_plain(lower_formula(tree, [names[array.dtype] for array in inputs]), inputs)
    return np.broadcast_to(result, np.broadcast_shapes(*(array.shape for array in inputs)))


def _matmul(inputs: Sequence[Array], attributes: Attributes) -> Array:
    left, right = inputs
    if bool_attribute(attributes, "transpose_a"):
        left = np.swapaxes(left, -1, -2)
    if bool_attribute(attributes, "transpose_b"):
        right = np.swapaxes(right, -1, -2)
    return ordered_products(left, right)


def _conv(inputs: Sequence[Array], attributes: Attributes) -> Array:
    data, kernel = inputs
    groups = int_attribute(attributes, "groups")
    windows = conv_windows(kernel.shape, attributes)
    spots = [w.output(n) for w, n in zip(windows, data.shape[2:], strict=True)]
    count, outputs, inner = data.shape[0], kernel.shape[0], math.prod(kernel.shape[1:])
    shape = (count, outputs, *spots)
    if math.prod(shape) == 0 or inner == 0:
        return np.zeros(shape, np.float32)
    wide = padded(data, windows, 0.0)
    parts = [part for _, part in shifts(wide, windows, spots)]
    columns = np.stack(parts, axis=2).reshape(count, groups, inner, math.prod(spots))
    weights = kernel.reshape(groups, outputs // groups, inner)
    return ordered_products(weights, columns).reshape(shape)


def _reduce(inputs: Sequence[Array], attributes: Attributes) -> Array:
    array, function = inputs[0], text_attribute(attributes, "function")
    axes = ints_attribute(attributes, "axes")
    kept = tuple(axis for axis in range(array.ndim) if axis not in axes)
    count = math.prod(array.shape[axis] for axis in axes)
    shape = tuple(array.shape[axis] for axis in kept)
    terms = array.transpose(kept + axes).reshape(*shape, count)
    if function in ("max", "min"):
        ufunc = np.maximum if function == "max" else np.minimum
        result = np.asarray(ufunc.reduce(terms, axis=-1)) + np.float32(0)
    elif count == 0:
        result = np.full(shape, 1.0 if function == "prod" else 0.0, np.float32)
    else:
        result = ordered_reduce(np.multiply if function == "prod" else np.add, terms)
    if function == "mean":
        result = result / np.float32(count)
    if bool_attribute(attributes, "keepdims"):
        result = np.expand_dims(result, axes)
    return np.asarray(result)


def _pool(inputs: Sequence[Array], attributes: Attributes) -> Array:
    array, windows = inputs[0], pool_windows(attributes)
    largest = text_attribute(attributes, "function") == "max"
    kept = array.ndim - len(windows)
    spots = [w.output(n) for w, n in zip(windows, array.shape[kept:], strict=True)]
    neutral = -math.inf if largest else 0.0
    result = np.full((*array.shape[:kept], *spots), neutral, np.float32)
    if result.size:
        ufunc = np.maximum if largest else np.add
        for _, part in shifts(padded(array, windows, neutral), windows, spots):
            ufunc(result, part, out=result)
    return np.asarray(result + np.float32(0)) if largest else result


def _scan(inputs: Sequence[Array], attributes: Attributes) -> Array:
    array, axis = inputs[0], int_attribute(attributes, "axis")
    function = text_attribute(attributes, "function")
    turned = np.flip(array, axis) if bool_attribute(attributes, "reverse") else array
    result = np.asarray(SCAN_FUNCTIONS[function].accumulate(turned, axis=axis))
    if function in ("max", "min"):
        result = result + np.float32(0)
    return np.flip(result, axis) if bool_attribute(attributes, "reverse") else result


def _scatter(inputs: Sequence[Array], attributes: Attributes) -> Array:
    data, indices, updates = inputs
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    if function == "set":
        (result,) = PRIMITIVES["scatter@1"].reference(inputs, attributes)
        return result
    PRIMITIVES["scatter@1"].reference(inputs, attributes)  # refuses indices out of range
    before, after = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    result = np.array(data, order="C")
    flat = np.moveaxis(result.reshape(before, data.shape[axis], after), 1, 0)
    rows = np.moveaxis(updates.reshape(before, indices.size, after), 1, 0)
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}[function]
    ufunc.at(flat, indices.reshape(-1).astype(np.intp), rows)
    return result if function == "add" else np.asarray(result + np.float32(0))


def _fold(inputs: Sequence[Array], attributes: Attributes) -> Array:
    source, space = inputs[0], ints_attribute(attributes, "space")
    shape = (*source.shape[: source.ndim - 2 * len(space)], *space)
    result = np.zeros(shape, np.float32)
    fold_into(source, fold_windows(source.shape, attributes), result)
    return result


def _random(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return PRIMITIVES["random@1"].reference(inputs, attributes)[0]


EXACT_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "conv@1": _conv,
        "fold@1": _fold,
        "formula@1": _formula,
        "matmul@1": _matmul,
        "pool@1": _pool,
        "random@1": _random,
        "reduce@1": _reduce,
        "scan_reduce@1": _scan,
        "scatter@1": _scatter,
    }
)
"""Primitives that compute with floats, on float32."""


def has_exact(key: str, attributes: Attributes, dtypes: Sequence[str]) -> bool:
    """Has this application of a primitive the class?

    Args:
        dtypes: of all its inputs and outputs.
    """
    if "float64" in dtypes:
        return False
    if key == "random@1":
        return attributes["function"] != "normal"
    floating = {"float32", "float16", "bfloat16"} & set(dtypes)
    return key in _UNROUNDED or key in EXACT_RULES or not floating


def evaluate_exact(
    key: str, inputs: Sequence[Array], attributes: Attributes, floating: bool
) -> tuple[Array, ...]:
    """The results of a primitive that `has_exact`.

    Args:
        floating: is any of its inputs or outputs float32?
    """
    with np.errstate(all="ignore"):
        if floating and key in EXACT_RULES:
            return (np.ascontiguousarray(EXACT_RULES[key](inputs, attributes)),)
        return PRIMITIVES[key].reference(inputs, attributes)


def canonical(array: Array) -> Array:
    """The array with one bit pattern for every NaN."""
    if array.dtype != np.float32:
        return array
    return np.where(np.isnan(array), np.float32(np.nan), array)
