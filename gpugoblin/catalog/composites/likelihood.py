"""Losses of probabilities: nll, kl_divergence, binary_cross_entropy, and the same of logits.

Owns: their declarations. Each gives a loss for every example or element; a mean is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import expression
from gpugoblin.catalog.composite import Require, composite
from gpugoblin.catalog.composites.loss import labelled
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import (
    bool_attribute,
    int_attribute,
    require_axis,
    require_dtype,
    require_rank,
    same_dtype,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, share, special, strided
from gpugoblin.catalog.spec import FLOATS, Attribute, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS"]

_LEAST: Final = -100.0
"""Logarithms of probabilities are no less, as in PyTorch: a certain mistake has a finite loss."""


def _require_nll(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    logs, labels, *weights = inputs
    same_dtype("nll", (logs, *weights), FLOATS)
    require_dtype("nll (labels)", labels, ("int32", "int64"))
    require_rank("nll", logs, 1)
    axis = require_axis("nll", "axis", int_attribute(attributes, "axis"), logs.rank)
    if labels.shape != (*logs.shape[:axis], *logs.shape[axis + 1 :]):
        raise shapes_error("nll", inputs, f"labels for all axes but {axis} are wanted")
    if any(spec.shape != (logs.shape[axis],) for spec in weights):
        raise shapes_error("nll", inputs, f"{logs.shape[axis]} weights are wanted")


def _nll(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    logs, labels, *weights = inputs
    axis, ignored = int_attribute(attributes, "axis"), int_attribute(attributes, "ignored")
    return (labelled(builder, logs, labels, axis, ignored, weights[0] if weights else None),)


def _require_same(name: str, *, weight: bool = False) -> Require:
    def check(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
        same_dtype(name, inputs, FLOATS)
        if inputs[0].shape != inputs[1].shape:
            raise shapes_error(name, inputs, "the first two must be equal")
        for spec in inputs[2:]:
            whole = inputs[0].shape[inputs[0].rank - spec.rank :] if spec.rank else ()
            fits = spec.rank <= inputs[0].rank and all(
                own in (1, extent) for own, extent in zip(spec.shape, whole, strict=True)
            )
            if not (weight and fits):
                raise shapes_error(name, inputs, "weights must broadcast against the data")

    return check


def _kl(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    """t (log t - q), and 0 where t is 0."""
    dtype, logs = builder.spec(inputs[0]).dtype, bool_attribute(attributes, "log_target")

    def write(build: FormulaBuilder, q: int, target: int) -> int:
        if logs:
            return build.call("mul", build.call("exp", target), build.call("sub", target, q))
        zero, one = build.const(dtype, 0.0), build.const(dtype, 1.0)
        some = build.call("ne", target, zero)
        known = build.call("where", some, target, one)
        gap = build.call("sub", build.call("log", known), q)
        return build.call("where", some, build.call("mul", target, gap), zero)

    return (expression(builder, inputs, write),)


def _entropy(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    """-(t log p + (1 - t) log(1 - p))."""
    dtype = builder.spec(inputs[0]).dtype

    def logarithm(build: FormulaBuilder, p: int) -> int:
        one, least = build.const(dtype, 1.0), build.const(dtype, _LEAST)
        # The logarithm of 0 is never asked for: its derivative would be infinity times 0.
        none = build.call("eq", p, build.const(dtype, 0.0))
        found = build.call("log", build.call("where", none, one, p))
        return build.call("where", none, least, build.call("max", found, least))

    def write(build: FormulaBuilder, p: int, target: int) -> int:
        one = build.const(dtype, 1.0)
        yes, no = logarithm(build, p), logarithm(build, build.call("sub", one, p))
        first = build.call("mul", target, yes)
        rest = build.call("mul", build.call("sub", one, target), no)
        return build.call("neg", build.call("add", first, rest))

    return (expression(builder, inputs, write),)


def _logits(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    """(1 - t) x + (1 + (w - 1) t) (log(1 + exp(-|x|)) + max(-x, 0)), which never overflows."""
    dtype = builder.spec(inputs[0]).dtype

    def write(build: FormulaBuilder, x: int, target: int, *weights: int) -> int:
        zero, one = build.const(dtype, 0.0), build.const(dtype, 1.0)
        against = build.call("neg", x)
        powers = build.call("exp", build.call("neg", build.call("abs", x)))
        # At 0 the derivative of abs is 0 and that of max 1/2: the sum is that of the loss.
        above = build.call("max", against, zero)
        tail = build.call("add", build.call("log1p", powers), above)
        if weights:
            more = build.call("mul", build.call("sub", weights[0], one), target)
            tail = build.call("mul", build.call("add", one, more), tail)
        return build.call("add", build.call("mul", build.call("sub", one, target), x), tail)

    return (expression(builder, inputs, write),)


OPERATORS: Final = (
    composite(
        "nll",
        (2, 3),
        (Attribute("axis", "int"), Attribute("ignored", "int", required=False, default=-100)),
        _require_nll,
        _nll,
        (
            sample("rows", normal(5, 4), ints(5, low=0, high=3), axis=1),
            sample("plane", normal(2, 4, 3), ints(2, 3, dtype="int64", low=0, high=3), axis=1),
            sample("weights", normal(6, 3), ints(6, low=0, high=2), normal(3), axis=1, ignored=1),
            sample("line", normal(4), ints(low=0, high=3), axis=0),
            sample("empty", normal(0, 4), ints(0, low=0, high=3), axis=1),
            sample("size_1", normal(1, 1), ints(1, low=0, high=0), axis=1),
            sample("strided", strided(normal(3, 4)), ints(3, low=0, high=3), axis=1),
            sample("special", special(4, 6), ints(4, low=0, high=5), axis=1),
        ),
        "For each example the negative of the first input along an axis at its label, times the "
        "weight of the class if weights are given; 0 where the label is `ignored`. Any other label "
        "that is negative or too large is an error.",
    ),
    composite(
        "kl_divergence",
        (2, 2),
        (Attribute("log_target", "bool", required=False, default=False),),
        _require_same("kl_divergence"),
        _kl,
        (
            sample("plane", normal(3, 4), share(3, 4)),
            sample("logs", normal(3, 4), normal(3, 4), log_target=True),
            sample("scalar", normal(), share()),
            sample("empty", normal(0, 2), share(0, 2)),
            sample("size_1", normal(1), share(1)),
            sample("strided", strided(normal(3, 4)), share(3, 4)),
            sample("special", special(3, 3), share(3, 3)),
        ),
        "t (log t - q) for logarithms of probabilities q and target probabilities t, or their "
        "logarithms; 0 where t is 0.",
    ),
    composite(
        "binary_cross_entropy",
        (2, 2),
        (),
        _require_same("binary_cross_entropy"),
        _entropy,
        (
            sample("plane", share(3, 4), share(3, 4)),
            sample("line", share(700), share(700)),
            sample("scalar", share(), share()),
            sample("empty", share(0, 2), share(0, 2)),
            sample("size_1", share(1), share(1)),
            sample("strided", strided(share(3, 4)), share(3, 4)),
            sample("special", share(3, 3), special(3, 3)),
        ),
        "-(t log p + (1 - t) log(1 - p)) for probabilities p and targets t; the logarithms are no "
        "less than -100.",
    ),
    composite(
        "binary_cross_entropy_logits",
        (2, 3),
        (),
        _require_same("binary_cross_entropy_logits", weight=True),
        _logits,
        (
            sample("plane", normal(3, 4, scale=3.0), share(3, 4)),
            sample("weights", normal(3, 4), share(3, 4), share(4)),
            sample("scalar", normal(), share()),
            sample("empty", normal(0, 2), share(0, 2)),
            sample("size_1", normal(1), share(1)),
            sample("strided", strided(normal(3, 4)), share(3, 4)),
            sample("special", special(3, 3), share(3, 3)),
        ),
        "binary_cross_entropy of the sigmoid of the first input, without overflow; a third input "
        "weighs the targets that are 1.",
    ),
)
