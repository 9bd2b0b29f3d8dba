"""NumPy's functions on lazy arrays: `numpy.concatenate([x, y])` is `gg.concat([x, y])`.

Owns: which function of NumPy is which here, and NumPy's own names of arguments. One that has no
counterpart is refused with the researcher's line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from gpugoblin.capture import (
    arranging,
    compound_functions,
    creation,
    functions,
    linalg,
    reductions,
    scalar_functions,
)

__all__ = ["find"]

Function = Callable[..., Any]


def find(function: object) -> Function | None:
    """What a NumPy function means for lazy arrays; None where it means nothing."""
    return _TABLE.get(function)


def _plain(function: Function) -> Function:
    """The same function; arguments that are left at NumPy's own defaults are not passed on."""

    def call(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **_given(options))

    return call


def _reduction(function: Function, correction: bool = False) -> Function:
    def call(x: Any, axis: Any = None, *rest: Any, **options: Any) -> Any:
        kept = _given(options)
        if correction and "ddof" in kept:
            kept["correction"] = kept.pop("ddof")
        return function(x, *rest, axis=axis, **kept)

    return call


def _axis_first(function: Function, name: str = "axis", default: Any = -1) -> Function:
    """NumPy has `axis` as the second positional argument, the standard by name."""

    def call(x: Any, axis: Any = default, **options: Any) -> Any:
        return function(x, **{name: axis}, **_given(options))

    return call


def _given(options: dict[str, Any]) -> dict[str, Any]:
    silent = (None, np._NoValue)
    return {name: value for name, value in options.items() if not any(value is s for s in silent)}


def _dot(a: Any, b: Any) -> Any:
    last = 0 if np.ndim(b) == 1 else np.ndim(b) - 2
    return functions.tensordot(a, b, axes=([np.ndim(a) - 1], [last]))


def _transpose(x: Any, axes: Any = None) -> Any:
    return x.transpose() if axes is None else x.transpose(*axes)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return functions.choose(condition, x, y)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:
    kept = _given(options)
    return functions.clip(x, kept.get("min", a_min), kept.get("max", a_max))


def _squeeze(x: Any, axis: Any = None) -> Any:
    ones = tuple(n for n, extent in enumerate(x.shape) if extent == 1)
    return functions.squeeze(x, ones if axis is None else axis)


def _swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return functions.permute_dims(x, tuple(order))


def _concatenate(arrays: Any, axis: Any = 0, **options: Any) -> Any:
    return functions.concat(arrays, axis=axis, **_given(options))


def _stack(arrays: Any, axis: int = 0, **options: Any) -> Any:
    return functions.stack(arrays, axis=axis, **_given(options))


def _take(x: Any, indices: Any, axis: Any = None, **options: Any) -> Any:
    if axis is None:
        return functions.take(x.ravel(), indices, axis=0, **_given(options))
    return functions.take(x, indices, axis=axis, **_given(options))


def _along(x: Any, indices: Any, axis: int = -1) -> Any:
    return functions.take_along_axis(x, indices, axis=axis)


def _diff(x: Any, n: int = 1, axis: int = -1, **options: Any) -> Any:
    return reductions.diff(x, n=n, axis=axis, **_given(options))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    pair = isinstance(axis, tuple) and len(axis) == 2
    if ord is not None and (pair or (axis is None and x.ndim == 2)):
        order = (0, 1) if axis is None else axis
        moved = arranging.moveaxis(x, order, (-2, -1))
        return linalg.matrix_norm(moved, ord=ord, keepdims=keepdims)
    return linalg.vector_norm(x, ord=2 if ord is None else ord, axis=axis, keepdims=keepdims)


def _searchsorted(a: Any, v: Any, side: Any = "left", **options: Any) -> Any:
    return arranging.searchsorted(a, v, side=side, **_given(options))


def _roll(x: Any, shift: Any, axis: Any = None) -> Any:
    return arranging.roll(x, shift, axis=axis)


def _tril(x: Any, k: int = 0) -> Any:
    return creation.tril(x, k=k)


def _triu(x: Any, k: int = 0) -> Any:
    return creation.triu(x, k=k)


def _tile(x: Any, reps: Any) -> Any:
    return functions.tile(x, (reps,) if isinstance(reps, int) else tuple(reps))


def _repeat(x: Any, repeats: Any, axis: Any = None) -> Any:
    return functions.repeat(x, repeats, axis=axis)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        return functions.tensordot(a, b, axes=axes)
    first, second = ([one] if isinstance(one, int) else list(one) for one in axes)
    return functions.tensordot(a, b, axes=(first, second))


def _nan_to_num(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    top = float(np.finfo(x.dtype).max)
    found = functions.choose(scalar_functions.isnan(x), nan, x)
    found = functions.choose(found == np.inf, top if posinf is None else posinf, found)
    return functions.choose(found == -np.inf, -top if neginf is None else neginf, found)


_TABLE: Final[dict[object, Function]] = {
    np.arccosh: compound_functions.acosh,
    np.arcsinh: compound_functions.asinh,
    np.arctanh: compound_functions.atanh,
    np.conjugate: compound_functions.conj,
    np.copysign: compound_functions.copysign,
    np.hypot: compound_functions.hypot,
    np.logaddexp: compound_functions.logaddexp,
    np.logical_and: scalar_functions.logical_and,
    np.logical_not: scalar_functions.logical_not,
    np.logical_or: scalar_functions.logical_or,
    np.logical_xor: scalar_functions.logical_xor,
    np.nextafter: compound_functions.nextafter,
    np.positive: compound_functions.positive,
    np.signbit: compound_functions.signbit,
    np.square: scalar_functions.square,
    np.all: _reduction(reductions.all),
    np.any: _reduction(reductions.any),
    np.argmax: _reduction(reductions.argmax),
    np.argmin: _reduction(reductions.argmin),
    np.argsort: _axis_first(arranging.argsort),
    np.broadcast_arrays: _plain(functions.broadcast_arrays),
    np.broadcast_to: _plain(functions.broadcast_to),
    np.clip: _clip,
    np.concatenate: _concatenate,
    np.count_nonzero: _reduction(reductions.count_nonzero),
    np.cumsum: _axis_first(arranging.cumulative_sum, default=None),
    np.cumprod: _axis_first(arranging.cumulative_prod, default=None),
    np.diff: _diff,
    np.dot: _dot,
    np.expand_dims: _plain(functions.expand_dims),
    np.flip: _axis_first(arranging.flip, default=None),
    np.full_like: _plain(creation.full_like),
    np.linalg.norm: _norm,
    np.linalg.matrix_power: _plain(linalg.matrix_power),
    np.matrix_transpose: _plain(functions.matrix_transpose),
    np.max: _reduction(reductions.max),
    np.mean: _reduction(reductions.mean),
    np.min: _reduction(reductions.min),
    np.moveaxis: _plain(arranging.moveaxis),
    np.ndim: lambda x: x.ndim,
    np.shape: lambda x: x.shape,
    np.size: lambda x: x.size,
    np.nan_to_num: _nan_to_num,
    np.ones_like: _plain(creation.ones_like),
    np.outer: _plain(linalg.outer),
    np.prod: _reduction(reductions.prod),
    np.real: _plain(compound_functions.real),
    np.repeat: _repeat,
    np.reshape: _plain(functions.reshape),
    np.roll: _roll,
    np.round: _plain(scalar_functions.round),
    np.searchsorted: _searchsorted,
    np.sort: _axis_first(arranging.sort),
    np.squeeze: _squeeze,
    np.stack: _stack,
    np.std: _reduction(reductions.std, correction=True),
    np.sum: _reduction(reductions.sum),
    np.swapaxes: _swapaxes,
    np.take: _take,
    np.take_along_axis: _along,
    np.tensordot: _tensordot,
    np.tile: _tile,
    np.trace: _plain(linalg.trace),
    np.transpose: _transpose,
    np.tril: _tril,
    np.triu: _triu,
    np.var: _reduction(reductions.var, correction=True),
    np.where: _where,
    np.zeros_like: _plain(creation.zeros_like),
}
