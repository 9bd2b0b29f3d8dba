"""Losses over labels. Owns: those ATen operators; the others decompose to arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value
from gpugoblin.catalog.along import take_along

__all__: list[str] = []

_MEAN, _SUM = 1, 2


def _reduced(c: Context, losses: Value, weights: Value, reduction: int) -> Value:
    axes = range(len(c.shape(losses)))
    total = c.reduce("sum", losses, axes)
    if reduction == _SUM:
        return total
    return c.call("div", total, c.reduce("sum", weights, axes))


def _shares(c: Context, labels: Value, weight: Value | None, ignored: int) -> tuple[Value, Value]:
    """Safe labels, and what each counts: its class's weight, 0 where it is ignored."""
    wide = c.cast(labels, "int64")
    skipped = c.call("eq", wide, c.number(ignored, "int64"))
    safe = c.call("where", skipped, c.number(0, "int64"), wide)
    if weight is None:
        counted = c.filled(c.shape(labels), 1.0, "float32")
    else:
        counted = c.op("gather", [weight, safe], axis=0)
    return safe, c.call("where", skipped, c.number(0.0, c.dtype(counted)), counted)


@aten("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    c: Context, logs: Value, labels: Value, weight: Value | None, reduction: int, ignored: int
) -> tuple[Value, Value]:
    axis = 0 if len(c.shape(logs)) == 1 else 1
    safe, shares = _shares(c, labels, weight, ignored)
    shape = c.shape(labels)
    column = c.reshape(safe, (*shape[:axis], 1, *shape[axis:]))
    taken = Value(take_along(c.builder, logs.number, column.number, axis))
    losses = c.formula(
        (c.reshape(taken, shape), shares), lambda f, a, w: f.call("neg", f.call("mul", a, w))
    )
    total = c.reduce("sum", shares, range(len(shape)))
    if reduction not in (_MEAN, _SUM):
        return losses, total
    return _reduced(c, losses, shares, reduction), total


@aten("cross_entropy_loss")
def cross_entropy(
    c: Context,
    scores: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = _MEAN,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Value:
    axis = 0 if len(c.shape(scores)) == 1 else 1
    if c.floating(target):
        return _soft(c, scores, target, weight, reduction, smoothing, axis)
    if weight is None and not smoothing:
        losses = c.op("cross_entropy", [scores, target], axis=axis, ignored=ignored)
        if reduction not in (_MEAN, _SUM):
            return losses
        return _reduced(c, losses, _shares(c, target, None, ignored)[1], reduction)
    logs = c.op("log_softmax", [scores], axis=axis)
    plain = nll_loss_forward(c, logs, target, weight, reduction, ignored)[0]
    if not smoothing:
        return plain
    if weight is not None:
        raise Unsupported("cross entropy with both class weights and label smoothing")
    counted = _shares(c, target, None, ignored)[1]
    spread = c.call("neg", c.reduce("sum", logs, (axis,)))
    smooth = c.call("mul", spread, counted)
    if reduction in (_MEAN, _SUM):
        smooth = _reduced(c, smooth, counted, reduction)
    count = c.shape(scores)[axis]
    shares = (c.number(1.0 - smoothing, "float32"), c.number(smoothing / count, "float32"))
    return c.formula(
        (plain, smooth, *shares),
        lambda f, a, b, k, s: f.call("add", f.call("mul", a, k), f.call("mul", b, s)),
    )


def _soft(
    c: Context,
    scores: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    smoothing: float,
    axis: int,
) -> Value:
    """With a probability for each class."""
    shape = c.shape(scores)
    if smoothing:
        numbers = (
            c.number(1.0 - smoothing, "float32"),
            c.number(smoothing / shape[axis], "float32"),
        )
        target = c.formula(
            (target, *numbers), lambda f, t, k, s: f.call("add", f.call("mul", t, k), s)
        )
    terms = c.call("mul", c.op("log_softmax", [scores], axis=axis), target)
    if weight is not None:
        line = c.reshape(weight, (shape[axis], *(1,) * (len(shape) - axis - 1)))
        terms = c.call("mul", terms, line)
    losses = c.call("neg", c.reduce("sum", terms, (axis,)))
    if reduction not in (_MEAN, _SUM):
        return losses
    total = c.reduce("sum", losses, range(len(c.shape(losses))))
    if reduction == _SUM:
        return total
    count = 1 if axis == 0 else c.spec(scores).count // max(1, shape[axis])
    return c.call("div", total, c.number(float(count), "float32"))


@aten("_ctc_loss")
def ctc_loss(
    c: Context,
    logs: Value,
    labels: Value,
    steps: Any,
    lengths: Any,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Value, None]:
    """The losses of the examples; labels one behind the other are not taken."""
    if len(c.shape(labels)) != 2:
        raise Unsupported("ctc_loss with the labels of all examples in one line")
    counts = [
        one if isinstance(one, Value) else c.constant(np.array(one, np.int64))
        for one in (steps, lengths)
    ]
    found = c.op("ctc", [logs, labels, *(c.cast(one, "int64") for one in counts)], blank=blank)
    if zero_infinity:
        zero = c.number(0.0, c.dtype(found))
        found = c.call("where", c.call("isinf", found), zero, found)
    return found, None
