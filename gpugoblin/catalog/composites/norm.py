"""layer_norm, rms_norm, group_norm and batch_norm. Owns: their declarations.

`epsilon` is an input, a scalar: attributes have no fractions, and its value stays a number of the
graph. Batch normalization with the statistics of the batch itself is `layer_norm` over all axes but
that of the channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import call, expression, reduced, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import (
    int_attribute,
    ints_attribute,
    require_axis,
    require_rank,
    same_dtype,
    shapes_error,
)
from gpugoblin.catalog.samples import Make, normal, sample, special, strided
from gpugoblin.catalog.spec import FLOATS, Array, Attribute, Attributes, Builder, TensorSpec
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS"]


def _small() -> Make:
    def make(generator: object) -> Array:
        import numpy as np

        return np.array(1e-3, np.float32)

    return make


def _require(name: str, inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    """float32 everywhere; `epsilon` a scalar; scale and shift broadcast against the data."""
    same_dtype(name, inputs, FLOATS)
    if inputs[1].rank:
        raise shapes_error(name, inputs, "epsilon, the second, must be a scalar")
    axes, data = ints_attribute(attributes, "axes"), inputs[0]
    if not axes or list(axes) != sorted(set(axes)) or not 0 <= axes[0] <= axes[-1] < data.rank:
        raise GraphError(
            "attribute_invalid",
            operator=name,
            attribute="axes",
            value=axes,
            reason=f"rising axes from 0 to {data.rank - 1} are wanted, one or more",
        )
    for spec in inputs[2:]:
        aligned = data.shape[data.rank - spec.rank :] if spec.rank <= data.rank else ()
        if spec.rank > data.rank or any(
            own not in (1, whole) for own, whole in zip(spec.shape, aligned, strict=True)
        ):
            raise shapes_error(name, inputs, "scale and shift must broadcast against the data")


def _scaled(builder: Builder, value: int, rest: Sequence[int]) -> int:
    if rest:
        value = call(builder, "mul", value, rest[0])
    return call(builder, "add", value, rest[1]) if len(rest) > 1 else value


def _normalized(builder: Builder, value: int, epsilon: int, axes: Sequence[int]) -> int:
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon): two passes, which do not cancel."""
    centered = call(builder, "sub", value, reduced(builder, "mean", value, axes))
    return _unit(builder, centered, epsilon, axes)


def _unit(builder: Builder, value: int, epsilon: int, axes: Sequence[int]) -> int:
    square = reduced(builder, "mean", call(builder, "mul", value, value), axes)

    def write(build: FormulaBuilder, x: int, size: int, least: int) -> int:
        return build.call("mul", x, build.call("rsqrt", build.call("add", size, least)))

    return expression(builder, [value, square, epsilon], write)


def _layer(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    value, epsilon, *rest = inputs
    found = _normalized(builder, value, epsilon, ints_attribute(attributes, "axes"))
    return (_scaled(builder, found, rest),)


def _rms(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    value, epsilon, *rest = inputs
    found = _unit(builder, value, epsilon, ints_attribute(attributes, "axes"))
    return (_scaled(builder, found, rest),)


# group_norm


def _require_group(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    same_dtype("group_norm", inputs, FLOATS)
    require_rank("group_norm", inputs[0], 2)
    if inputs[1].rank:
        raise shapes_error("group_norm", inputs, "epsilon, the second, must be a scalar")
    channels, groups = inputs[0].shape[1], int_attribute(attributes, "groups")
    if groups < 1 or channels % groups:
        raise GraphError(
            "attribute_invalid",
            operator="group_norm",
            attribute="groups",
            value=groups,
            reason=f"a divisor of {channels} channels is wanted",
        )
    if any(spec.shape != (channels,) for spec in inputs[2:]):
        raise shapes_error("group_norm", inputs, f"scale and shift of shape ({channels},)")


def _group(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    value, epsilon, *rest = inputs
    count, channels, *space = builder.spec(value).shape
    groups = int_attribute(attributes, "groups")
    grouped = reshaped(builder, value, (count, groups, channels // groups, *space))
    found = _normalized(builder, grouped, epsilon, range(2, 3 + len(space)))
    found = reshaped(builder, found, (count, channels, *space))
    lines = [reshaped(builder, one, (channels, *(1,) * len(space))) for one in rest]
    return (_scaled(builder, found, lines),)


# batch_norm


def _require_batch(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    same_dtype("batch_norm", inputs, FLOATS)
    require_rank("batch_norm", inputs[0], 1)
    axis = require_axis("batch_norm", "axis", int_attribute(attributes, "axis"), inputs[0].rank)
    if inputs[1].rank:
        raise shapes_error("batch_norm", inputs, "epsilon, the second, must be a scalar")
    if any(spec.shape != (inputs[0].shape[axis],) for spec in inputs[2:]):
        raise shapes_error("batch_norm", inputs, "one number a channel is wanted")


def _batch(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    value, epsilon, *lines = inputs
    shape, axis = builder.spec(value).shape, int_attribute(attributes, "axis")
    line = (shape[axis], *(1,) * (len(shape) - axis - 1))
    mean, variance, *rest = (reshaped(builder, one, line) for one in lines)

    def write(build: FormulaBuilder, x: int, m: int, v: int, least: int) -> int:
        scale = build.call("rsqrt", build.call("add", v, least))
        return build.call("mul", build.call("sub", x, m), scale)

    found = expression(builder, [value, mean, variance, epsilon], write)
    return (_scaled(builder, found, rest),)


def _positive(count: int) -> Make:
    plain = normal(count)
    return lambda generator: abs(plain(generator)) + plain(generator).dtype.type(0.5)


_AXES: Final = (Attribute("axes", "ints"),)
_OF_AXES: Final = (
    sample("last", normal(4, 6), _small(), normal(6), axes=(1,)),
    sample("plain", normal(2, 3, 4), _small(), axes=(1, 2)),
    sample("batch", normal(4, 3, 2), _small(), normal(3, 1), axes=(0, 2)),
    sample("empty", normal(0, 3), _small(), normal(3), axes=(1,)),
    sample("size_1", normal(1), _small(), axes=(0,)),
    sample("strided", strided(normal(3, 8)), _small(), normal(8), axes=(1,)),
    sample("special", special(4, 6), _small(), axes=(1,)),
)

OPERATORS: Final = (
    composite(
        "layer_norm",
        (2, 4),
        _AXES,
        lambda inputs, given: _require("layer_norm", inputs, given),
        _layer,
        (*_OF_AXES, sample("full", normal(3, 5), _small(), normal(5), normal(5), axes=(1,))),
        "The data with mean 0 and variance 1 over axes, the variance raised by epsilon, then times "
        "a scale and plus a shift that broadcast. Inputs: data, epsilon, scale, shift.",
    ),
    composite(
        "rms_norm",
        (2, 3),
        _AXES,
        lambda inputs, given: _require("rms_norm", inputs, given),
        _rms,
        _OF_AXES,
        "The data over the root of its mean square (raised by epsilon) over axes, times a scale "
        "that broadcasts. Inputs: data, epsilon, scale.",
    ),
    composite(
        "group_norm",
        (2, 4),
        (Attribute("groups", "int"),),
        _require_group,
        _group,
        (
            sample("plane", normal(2, 6, 3, 2), _small(), normal(6), normal(6), groups=3),
            sample("plain", normal(3, 4), _small(), groups=2),
            sample("each", normal(2, 3, 5), _small(), normal(3), groups=3),
            sample("empty", normal(0, 4, 2), _small(), groups=2),
            sample("size_1", normal(1, 1), _small(), groups=1),
            sample("strided", strided(normal(2, 4, 3)), _small(), groups=1),
            sample("special", special(3, 4, 2), _small(), groups=2),
        ),
        "layer_norm of groups of channels (axis 1) and all axes after it, with a scale and a shift "
        "a channel. Inputs: data, epsilon, scale, shift.",
        whole=((0, 1),),
    ),
    composite(
        "batch_norm",
        (4, 6),
        (Attribute("axis", "int", required=False, default=1),),
        _require_batch,
        _batch,
        (
            sample(
                "plane",
                *(normal(2, 3, 4, 2), _small(), normal(3), _positive(3), normal(3), normal(3)),
            ),
            sample("plain", normal(5, 3), _small(), normal(3), _positive(3)),
            sample("first", normal(3, 5), _small(), normal(3), _positive(3), normal(3), axis=0),
            sample("empty", normal(0, 3), _small(), normal(3), _positive(3)),
            sample("size_1", normal(1, 1), _small(), normal(1), _positive(1)),
            sample("strided", strided(normal(4, 3)), _small(), normal(3), _positive(3)),
            sample("special", special(3, 4), _small(), normal(4), _positive(4)),
        ),
        "The data less a given mean, over the root of a given variance raised by epsilon, one a "
        "channel, times a scale and plus a shift. Inputs: data, epsilon, mean, variance, scale, "
        "shift.",
    ),
)
