"""Operators of ONNX for neural networks: norms, convolutions, pools, losses.

Owns: one small function for each. Where the catalog has the layer as an operator, that is what it
becomes. Source: the operator schemas of ai.onnx, opset 7 to 26.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import gpugoblin as gg
from gpugoblin.capture import nn
from gpugoblin.capture.applying import apply
from gpugoblin.capture.array import Array
from gpugoblin.capture.expression import Value
from gpugoblin.capture.onnx.node import Call, Handler

__all__ = ["HANDLERS"]


def _softmax(call: Call) -> Array:
    return _over(call, nn.softmax)


def _log_softmax(call: Call) -> Array:
    return _over(call, nn.log_softmax)


def _over(call: Call, function: Callable[..., Array]) -> Array:
    x = call.array(0)
    if call.opset >= 13:
        return function(x, axis=call.get("axis", -1))
    axis = call.get("axis", 1) % max(1, x.ndim)
    flat = gg.reshape(x, (int(np.prod(x.shape[:axis])), -1))
    return gg.reshape(function(flat, axis=1), x.shape)


def _hardmax(call: Call) -> Array:
    x, axis = call.array(0), call.get("axis", -1)
    best = gg.expand_dims(gg.argmax(x, axis=axis), -1)
    return gg.moveaxis((best == gg.arange(x.shape[axis])).astype(x.dtype), -1, axis)


def _batch_norm(call: Call) -> Array | tuple[Array, ...]:
    x, scale, shift, mean, variance = (call.array(number) for number in range(5))
    epsilon = call.get("epsilon", 1e-5)
    if not call.get("training_mode", 0):
        return nn.batch_norm(x, mean, variance, scale=scale, shift=shift, epsilon=epsilon)
    axes, keep = tuple(axis for axis in range(x.ndim) if axis != 1), call.get("momentum", 0.9)
    now_mean, now_variance = gg.mean(x, axis=axes), gg.var(x, axis=axes)
    found = nn.batch_norm(x, now_mean, now_variance, scale=scale, shift=shift, epsilon=epsilon)
    return (
        found,
        mean * keep + now_mean * (1 - keep),
        variance * keep + now_variance * (1 - keep),
    )


def _layer_norm(call: Call) -> Array | tuple[Array, ...]:
    x, scale, shift = call.array(0), call.array(1), call.optional(2)
    axis, epsilon = call.get("axis", -1) % x.ndim, call.get("epsilon", 1e-5)
    axes = tuple(range(axis, x.ndim))
    found = nn.layer_norm(x, axes=axes, scale=scale, shift=shift, epsilon=epsilon)
    if call.outputs == 1:
        return found
    mean = gg.mean(x, axis=axes, keepdims=True)
    variance = gg.var(x, axis=axes, keepdims=True)
    return found, mean, gg.rsqrt(variance + epsilon)


def _rms_norm(call: Call) -> Array:
    x, axis = call.array(0), call.get("axis", -1)
    axes = tuple(range(axis % x.ndim, x.ndim))
    return nn.rms_norm(x, axes=axes, scale=call.array(1), epsilon=call.get("epsilon", 1e-5))


def _group_norm(call: Call) -> Array:
    x, scale, shift = (call.array(number) for number in range(3))
    groups = call.get("num_groups")
    if scale.shape != (x.shape[1],):  # before opset 21: one number a group
        each = x.shape[1] // groups
        scale, shift = gg.repeat(scale, each), gg.repeat(shift, each)
    return nn.group_norm(x, groups, scale=scale, shift=shift, epsilon=call.get("epsilon", 1e-5))


def _instance_norm(call: Call) -> Array:
    x, scale, shift = (call.array(number) for number in range(3))
    return nn.group_norm(x, x.shape[1], scale=scale, shift=shift, epsilon=call.get("epsilon", 1e-5))


def _lp_norm(call: Call) -> Array:
    x, axis, p = call.array(0), call.get("axis", -1), call.get("p", 2)
    size = gg.linalg.vector_norm(x, axis=axis, keepdims=True, ord=p)
    return gg.where(size == 0, 0.0, x / size)


def _mean_variance(call: Call) -> Array:
    x, axes = call.array(0), tuple(call.ints("axes") or (0, 2, 3))
    away = x - gg.mean(x, axis=axes, keepdims=True)
    return away / (gg.std(x, axis=axes, keepdims=True) + 1e-9)


def _local_response(call: Call) -> Array:
    x, size = call.array(0), call.get("size")
    alpha, beta, bias = call.get("alpha", 1e-4), call.get("beta", 0.75), call.get("bias", 1.0)
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    turned = gg.moveaxis(x * x, 1, -1)
    padded = gg.pad(turned, [(0, 0)] * (x.ndim - 1) + [(low, high)], value=0.0)
    total = sum(
        (padded[..., n : n + x.shape[1]] for n in range(1, size)), padded[..., : x.shape[1]]
    )
    return x / gg.moveaxis((total * (alpha / size) + bias) ** beta, -1, 1)


def _spans(call: Call, x: Array, window: list[int]) -> tuple[list[int], list[int], list[Any]]:
    """Strides, dilations and paddings, also those that ONNX derives from the extents."""
    count = len(window)
    strides = call.ints("strides") or [1] * count
    dilations = call.ints("dilations") or [1] * count
    mode = call.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for n, w, s, d in zip(x.shape[2:], window, strides, dilations, strict=True):
            whole = max(0, (-(-n // s) - 1) * s + (w - 1) * d + 1 - n)
            low = whole // 2 if mode == "SAME_UPPER" else whole - whole // 2
            pads.append((low, whole - low))
        return strides, dilations, pads
    given = call.ints("pads") or [0] * (2 * count)
    if mode == "VALID":
        given = [0] * (2 * count)
    return strides, dilations, list(zip(given[:count], given[count:], strict=True))


def _conv(call: Call) -> Array:
    x, kernel = call.array(0), call.array(1)
    strides, dilations, pads = _spans(call, x, list(kernel.shape[2:]))
    return nn.conv(
        x, kernel, bias=call.optional(2), stride=strides, padding=pads, dilation=dilations,
        groups=call.get("group", 1),
    )  # fmt: skip


def _conv_transposed(call: Call) -> Array:
    x, kernel, bias = call.array(0), call.array(1), call.optional(2)
    count = x.ndim - 2
    strides = call.ints("strides") or [1] * count
    dilations = call.ints("dilations") or [1] * count
    extra = call.ints("output_padding") or [0] * count
    given = call.ints("pads") or [0] * (2 * count)
    low, high = given[:count], given[count:]
    whole = [
        (n - 1) * s + (w - 1) * d + 1 + e
        for n, s, w, d, e in zip(
            x.shape[2:], strides, kernel.shape[2:], dilations, extra, strict=True
        )
    ]
    wanted = call.ints("output_shape")
    mode = call.get("auto_pad", "NOTSET")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        cuts = [have - want for have, want in zip(whole, wanted[-count:], strict=True)]
        low = [max(0, c) // 2 for c in cuts]
        high = [c - a for c, a in zip(cuts, low, strict=True)]
        if mode == "SAME_LOWER":
            low, high = high, low
    # Negative cuts at the end are elements more at the end.
    extra = [e + max(0, -h) for e, h in zip(extra, high, strict=True)]
    node = apply(
        "conv_transposed", [x.value, kernel.value], call.place, stride=tuple(strides),
        dilation=tuple(dilations), low=tuple(low), high=tuple(max(0, h) for h in high),
        extra=tuple(extra), groups=call.get("group", 1),
    )  # fmt: skip
    found = Array(Value(node, 0))
    return found if bias is None else found + gg.reshape(bias, (-1, *(1,) * count))


def _pool_spans(call: Call, x: Array) -> tuple[list[int], list[int], list[int], list[Any]]:
    window = call.ints("kernel_shape") or []
    strides, dilations, pads = _spans(call, x, window)
    if call.get("ceil_mode", 0):
        grown = []
        for n, w, s, d, (low, high) in zip(
            x.shape[2:], window, strides, dilations, pads, strict=True
        ):
            reach = n + low + high - (w - 1) * d - 1
            steps = -(-reach // s)
            if steps * s >= n + low:  # the last window would start in the padding at the end
                steps -= 1
            grown.append((low, high + max(0, steps * s - reach)))
        pads = grown
    return window, strides, dilations, pads


def _max_pool(call: Call) -> Array:
    if call.outputs > 1:
        raise call.refused("the positions of the maxima are not said", "Use the values alone.")
    x = call.array(0)
    window, strides, dilations, pads = _pool_spans(call, x)
    return nn.max_pool(x, window, stride=strides, padding=pads, dilation=dilations)


def _average_pool(call: Call) -> Array:
    x = call.array(0)
    window, strides, dilations, pads = _pool_spans(call, x)
    total = _summed(call, x, window, strides, dilations, pads)
    ones = gg.ones(x.shape[2:])
    base = call.ints("pads") or [0] * (2 * len(window))
    if call.get("count_include_pad", 0):
        given = list(zip(base[: len(window)], base[len(window) :], strict=True))
        if call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            given = pads
        ones = gg.pad(ones, given, value=1.0)
        pads = [(a - c, b - d) for (a, b), (c, d) in zip(pads, given, strict=True)]
    return total / _summed(call, ones, window, strides, dilations, pads)


def _summed(
    call: Call, x: Array, window: list[int], strides: list[int], dilations: list[int], pads: Any
) -> Array:
    node = apply(
        "pool", [x.value], call.place, function="sum", window=tuple(window),
        stride=tuple(strides), dilation=tuple(dilations), low=tuple(a for a, _ in pads),
        high=tuple(b for _, b in pads),
    )  # fmt: skip
    return Array(Value(node, 0))


def _lp_pool(call: Call) -> Array:
    x, p = call.array(0), float(call.get("p", 2))
    window, strides, dilations, pads = _pool_spans(call, x)
    total = _summed(call, gg.abs(x) ** p, window, strides, dilations, pads)
    return total ** (1.0 / p)


def _global(function: Callable[..., Array]) -> Handler:
    def handle(call: Call) -> Array:
        x = call.array(0)
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return handle


def _global_lp(call: Call) -> Array:
    x, p = call.array(0), float(call.get("p", 2))
    total = gg.sum(gg.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True)
    return total ** (1.0 / p)


def _dropout(call: Call) -> Array | tuple[Array, ...]:
    x, training = call.array(0), call.optional(2)
    if training is not None and bool(call.numbers(2).item()):
        ratio = 0.5 if call.optional(1) is None else float(call.numbers(1).item())
        if ratio:
            raise call.refused(
                "it drops elements at random, without a key that says which",
                "Export the model in inference mode.",
            )
    return (x, gg.full(x.shape, True)) if call.outputs > 1 else x


def _cross_entropy(call: Call) -> Array | tuple[Array, ...]:
    found = nn.log_softmax(call.array(0), axis=1)
    loss = _weighed(call, found)
    return (loss, found) if call.outputs > 1 else loss


def _weighed(call: Call, logarithms: Array) -> Array:
    labels, weights = call.array(1).astype("int64"), call.optional(2)
    ignored = call.get("ignore_index")
    kept = gg.full(labels.shape, True) if ignored is None else labels != ignored
    places = gg.where(kept, labels, 0)
    picked = gg.take_along_axis(logarithms, gg.expand_dims(places, 1), axis=1)
    each = kept.astype("float32")
    if weights is not None:
        each = each * gg.take(weights, places)
    loss = -gg.squeeze(picked, 1) * each
    reduction = call.get("reduction", "mean")
    if reduction == "none":
        return loss
    total = gg.sum(loss)
    return total if reduction == "sum" else total / gg.sum(each)


_PLAIN: Final = frozenset({"is_causal", "kv_num_heads", "q_num_heads", "scale"})


def _attention(call: Call) -> Array | None:
    """The catalog's attention where it is that, else ONNX's own definition: caches, soft caps,
    windows, and rows that see nothing, which are 0 there."""
    q, k, v = (call.array(number) for number in range(3))
    extra = call.outputs > 1 or any(call.optional(number) is not None for number in (4, 5, 6))
    if extra or set(call.attributes) - _PLAIN:
        return None
    if call.optional(3) is not None and (call.get("is_causal", 0) or call.array(3).dtype == bool):
        return None
    heads = call.get("q_num_heads")
    if q.ndim == 3:
        shared = call.get("kv_num_heads")
        q, k, v = (_heads(x, n) for x, n in ((q, heads), (k, shared), (v, shared)))
    mask = call.optional(3)
    if q.shape[1] != k.shape[1]:
        k, v = (gg.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    if mask is not None and mask.shape[-1] < k.shape[2]:
        end = gg.full((*mask.shape[:-1], k.shape[2] - mask.shape[-1]), -math.inf)
        mask = gg.concat([mask, end], axis=-1)
    causal = bool(call.get("is_causal", 0))
    found = nn.attention(q, k, v, mask=mask, causal=causal, scale=call.get("scale"))
    if heads is None or call.array(0).ndim != 3:
        return found
    b, h, n, d = found.shape
    return gg.reshape(gg.permute_dims(found, (0, 2, 1, 3)), (b, n, h * d))


def _heads(x: Array, count: int) -> Array:
    b, n, whole = x.shape
    return gg.permute_dims(gg.reshape(x, (b, n, count, whole // count)), (0, 2, 1, 3))


HANDLERS: Final[dict[str, Handler]] = {
    "Attention": _attention,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _conv_transposed,
    "Dropout": _dropout,
    "GlobalAveragePool": _global(gg.mean),
    "GlobalLpPool": _global_lp,
    "GlobalMaxPool": _global(gg.max),
    "GroupNormalization": _group_norm,
    "Hardmax": _hardmax,
    "InstanceNormalization": _instance_norm,
    "LRN": _local_response,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _log_softmax,
    "LpNormalization": _lp_norm,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MeanVarianceNormalization": _mean_variance,
    "NegativeLogLikelihoodLoss": lambda call: _weighed(call, call.array(0)),
    "RMSNormalization": _rms_norm,
    "Softmax": _softmax,
    "SoftmaxCrossEntropyLoss": _cross_entropy,
}
"""Operator -> its handler."""
