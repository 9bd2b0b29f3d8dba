"""Operators of ONNX that reduce, accumulate, order and multiply.

Owns: one small function for each. Source: the operator schemas of ai.onnx, opset 7 to 26.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import gpugoblin as gg
from gpugoblin.capture import nn
from gpugoblin.capture.array import Array
from gpugoblin.capture.einsum import einsum
from gpugoblin.capture.onnx.node import Call, Handler

__all__ = ["HANDLERS"]

Reduction = Callable[..., Array]


def _reduced(function: Reduction) -> Handler:
    def handle(call: Call) -> Array:
        x, axes = call.array(0), call.ints("axes", 1)
        if not axes:
            if call.get("noop_with_empty_axes", 0):
                return function(gg.expand_dims(x, 0), axis=0)
            axes = list(range(x.ndim))
        return function(x, axis=tuple(axes), keepdims=bool(call.get("keepdims", 1)))

    return handle


def _kept(x: Array, function: Reduction, **options: Any) -> Array:
    """Sums in the dtype of their operand, as ONNX has them."""
    found = function(x, **options)
    return found if found.dtype == x.dtype else found.astype(x.dtype)


def _sum(x: Array, **options: Any) -> Array:
    return _kept(x, gg.sum, **options)


def _l2(x: Array, **options: Any) -> Array:
    return gg.sqrt(gg.sum(x * x, **options))


def _extreme(function: Reduction, bools: Reduction) -> Reduction:
    def found(x: Array, **options: Any) -> Array:
        if x.dtype == np.bool_:
            return bools(x, **options)
        axes = options["axis"] if isinstance(options["axis"], tuple) else (options["axis"],)
        if x.size or all(x.shape[axis] for axis in axes):
            return function(x, **options)
        fill = np.inf if function is gg.min else -np.inf
        return gg.sum(x, **options) + fill

    return found


def _log_sum_exp(x: Array, **options: Any) -> Array:
    if not x.size:
        return gg.log(gg.sum(gg.exp(x), **options))
    return nn.logsumexp(x, **options)


def _arg(function: Reduction) -> Handler:
    def handle(call: Call) -> Array:
        x, axis = call.array(0), call.get("axis", 0)
        keepdims = bool(call.get("keepdims", 1))
        if not call.get("select_last_index", 0):
            return function(x, axis=axis, keepdims=keepdims)
        found = function(gg.flip(x, axis=axis), axis=axis, keepdims=keepdims)
        return gg.subtract(x.shape[axis] - 1, found)

    return handle


def _cumulative(call: Call) -> Array:
    x, axis = call.array(0), int(call.numbers(1).item())
    axis %= x.ndim
    reverse = bool(call.get("reverse", 0))
    if reverse:
        x = gg.flip(x, axis=axis)
    found = gg.cumulative_sum(x, axis=axis, dtype=x.dtype)
    if call.get("exclusive", 0):
        whole = (slice(None),) * axis
        zero = gg.zeros_like(found[(*whole, slice(0, 1))])
        found = gg.concat([zero, found[(*whole, slice(0, -1))]], axis=axis)
    return gg.flip(found, axis=axis) if reverse else found


def _topk(call: Call) -> tuple[Array, ...]:
    k = call.get("k")
    k = int(call.numbers(1).item()) if k is None else int(k)
    largest = bool(call.get("largest", 1))
    return gg.topk(call.array(0), k, axis=call.get("axis", -1), largest=largest)


def _gemm(call: Call) -> Array:
    a, b, c = call.array(0), call.array(1), call.optional(2)
    a = a.mT if call.get("transA", 0) else a
    b = b.mT if call.get("transB", 0) else b
    found = a @ b
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    if alpha != 1.0:
        found = found * alpha
    if c is None:
        return found
    return found + (c if beta == 1.0 else c * beta)


def _einsum(call: Call) -> Array:
    arrays = [one for one in call.inputs if one is not None]
    equation = call.get("equation")
    return einsum(equation.decode() if isinstance(equation, bytes) else equation, *arrays)


HANDLERS: Final[dict[str, Handler]] = {
    "ArgMax": _arg(gg.argmax),
    "ArgMin": _arg(gg.argmin),
    "CumSum": _cumulative,
    "Det": lambda call: gg.linalg.det(call.array(0)),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": lambda call: call.array(0) @ call.array(1),
    "ReduceL1": _reduced(lambda x, **options: _sum(gg.abs(x), **options)),
    "ReduceL2": _reduced(_l2),
    "ReduceLogSum": _reduced(lambda x, **options: gg.log(gg.sum(x, **options))),
    "ReduceLogSumExp": _reduced(_log_sum_exp),
    "ReduceMax": _reduced(_extreme(gg.max, gg.any)),
    "ReduceMean": _reduced(gg.mean),
    "ReduceMin": _reduced(_extreme(gg.min, gg.all)),
    "ReduceProd": _reduced(lambda x, **options: _kept(x, gg.prod, **options)),
    "ReduceSum": _reduced(_sum),
    "ReduceSumSquare": _reduced(lambda x, **options: _sum(x * x, **options)),
    "TopK": _topk,
}
"""Operator -> its handler."""
