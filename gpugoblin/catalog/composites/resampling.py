"""resize: an image with other extents. Owns: its declaration, and the weights of each place.

Every place of the result is a weighted sum of few elements of its line, one axis after the other:
gathers and one formula. The weights are constants, made in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from gpugoblin.catalog.building import call, expression, reduced, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.moving import invalid
from gpugoblin.catalog.rules import (
    bool_attribute,
    ints_attribute,
    require_dtype,
    require_rank,
    shapes_error,
    text_attribute,
)
from gpugoblin.catalog.samples import normal, sample, special, strided
from gpugoblin.catalog.spec import DTYPES, FLOATS, Array, Attribute, Attributes, Builder, TensorSpec

__all__ = ["OPERATORS", "line_weights"]

_Shape = Callable[[Array, float], Array]
"""Weights by the distance, in elements."""

_FUSED: Final = 8
"""Up to so many elements a place are summed by one formula."""


def _require(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    places = ints_attribute(attributes, "places")
    require_dtype("resize", inputs[0], FLOATS)
    require_rank("resize", inputs[0], len(places))
    if not places or min(places) < 1:
        raise invalid("resize", "places", places, "integers of 1 or more are wanted")
    if 0 in inputs[0].shape[inputs[0].rank - len(places) :]:
        raise shapes_error("resize", inputs, "an axis that is resized has no elements")
    for name in ("numerators", "denominators"):
        value = ints_attribute(attributes, name)
        if value and (len(value) != len(places) or min(value) < 1):
            raise invalid("resize", name, value, "nothing or one integer of 1 or more an axis")
    if text_attribute(attributes, "method") == "nearest" and bool_attribute(attributes, "smooth"):
        raise invalid("resize", "smooth", True, "it has no meaning for nearest elements")


def _scales(extents: Sequence[int], attributes: Attributes) -> list[Fraction]:
    """Elements of the data from one place to the next, where corners are not aligned."""
    places = ints_attribute(attributes, "places")
    above = ints_attribute(attributes, "numerators") or tuple(extents)
    below = ints_attribute(attributes, "denominators") or places
    return [Fraction(one, other) for one, other in zip(above, below, strict=True)]


def _positions(extent: int, count: int, scale: Fraction, alignment: str) -> list[Fraction]:
    """Where in the data each place lies."""
    if alignment == "corners":
        scale = Fraction(extent - 1, count - 1) if count > 1 else Fraction(0)
    if alignment == "half":
        half = Fraction(1, 2)
        return [(place + half) * scale - half for place in range(count)]
    return [place * scale for place in range(count)]


def line_weights(
    extent: int, scale: Fraction, axis: int, attributes: Attributes
) -> tuple[Array, Array]:
    """The elements that make each place of a line, and their weights: [places, elements a place].

    The cubic weights are those of R. G. Keys, *Cubic convolution interpolation for digital image
    processing*, IEEE Transactions on Acoustics, Speech, and Signal Processing 29 (1981), with his
    parameter as an attribute. Smoothing stretches the weights over all that a place covers.
    """
    count, method = (
        ints_attribute(attributes, "places")[axis],
        text_attribute(attributes, "method"),
    )
    spots = _positions(extent, count, scale, text_attribute(attributes, "alignment"))
    if method == "nearest":
        near = [_nearest(spot, text_attribute(attributes, "rounding")) for spot in spots]
        return np.clip(np.array(near, np.int64)[:, None], 0, extent - 1), np.ones((count, 1))
    shape: _Shape = _linear if method == "linear" else _cubic
    parameter = float(Fraction(text_attribute(attributes, "parameter")))
    if bool_attribute(attributes, "smooth"):
        stretch = float(max(scale, Fraction(1)))
        return _smoothed(extent, np.array([float(one) for one in spots]), stretch, shape, parameter)
    taps = np.array([0, 1]) if method == "linear" else np.array([-1, 0, 1, 2])
    first = np.array([one.numerator // one.denominator for one in spots], np.int64)
    inside = np.array(
        [float(one - below) for one, below in zip(spots, first.tolist(), strict=True)]
    )
    weights = shape(inside[:, None] - taps, parameter)
    return np.clip(first[:, None] + taps, 0, extent - 1), weights


def _smoothed(
    extent: int, spots: Array, stretch: float, shape: _Shape, parameter: float
) -> tuple[Array, Array]:
    """Weights of a shape stretched over what lies between places; what is outside has none."""
    reach = (1.0 if shape is _linear else 2.0) * stretch
    first = np.maximum(np.trunc(spots + 0.5 - reach + 0.5), 0).astype(np.int64)
    last = np.minimum(np.trunc(spots + 0.5 + reach + 0.5), extent).astype(np.int64)
    taps = np.arange(max(1, int((last - first).max())))
    index = first[:, None] + taps
    distance = (index - spots[:, None]) / stretch
    weights = shape(distance, parameter)
    weights = np.where(index < last[:, None], weights, 0.0)
    return np.clip(index, 0, extent - 1), weights / weights.sum(1, keepdims=True)


def _nearest(spot: Fraction, rounding: str) -> int:
    below, half = spot.numerator // spot.denominator, Fraction(1, 2)
    if rounding == "floor" or spot == below:
        return below
    if rounding == "ceil":
        return below + 1
    rest = spot - below
    return below + (rest > half or (rest == half and rounding == "half_up"))


def _linear(distance: Array, parameter: float) -> Array:
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(distance)))


def _cubic(distance: Array, parameter: float) -> Array:
    x, a = np.abs(distance), parameter
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _resize(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    (value,) = inputs
    spec, places = builder.spec(value), ints_attribute(attributes, "places")
    kept = spec.rank - len(places)
    for axis, scale in enumerate(_scales(spec.shape[kept:], attributes)):
        extent = spec.shape[kept + axis]
        index, weights = line_weights(extent, scale, axis, attributes)
        same = index.shape[1] == 1 and np.array_equal(index[:, 0], np.arange(extent))
        if not same:
            value = _combined(builder, value, kept + axis, index, weights)
    return (value,)


def _combined(builder: Builder, value: int, axis: int, index: Array, weights: Array) -> int:
    """The weighted sums of elements along an axis."""
    spec = builder.spec(value)
    count, terms = index.shape
    line = (count, *(1,) * (spec.rank - axis - 1))
    if terms <= _FUSED:
        taken = [
            builder.add("gather", [value, builder.constant(index[:, term].copy())], axis=axis)
            for term in range(terms)
        ]
        if terms == 1:
            return taken[0]
        scale = [
            builder.constant(weights[:, term].astype(DTYPES[spec.dtype]).reshape(line))
            for term in range(terms)
        ]
        return expression(builder, [*taken, *scale], _weighted)
    places = builder.constant(index.reshape(-1))
    laid = builder.add("gather", [value, places], axis=axis)
    shape = (*spec.shape[:axis], count, terms, *spec.shape[axis + 1 :])
    table = weights.astype(DTYPES[spec.dtype]).reshape(count, terms, *line[1:])
    shares = call(builder, "mul", reshaped(builder, laid, shape), builder.constant(table))
    return reduced(builder, "sum", shares, (axis + 1,), keepdims=False)


def _weighted(build: FormulaBuilder, *operands: int) -> int:
    half = len(operands) // 2
    shares = [
        build.call("mul", x, w) for x, w in zip(operands[:half], operands[half:], strict=True)
    ]
    total = shares[0]
    for share in shares[1:]:
        total = build.call("add", total, share)
    return total


OPERATORS: Final = (
    composite(
        "resize",
        (1, 1),
        (
            Attribute("alignment", "choice", choices=("asymmetric", "corners", "half")),
            Attribute("denominators", "ints", required=False, default=()),
            Attribute("method", "choice", choices=("cubic", "linear", "nearest")),
            Attribute("numerators", "ints", required=False, default=()),
            Attribute(
                "parameter", "choice", required=False, default="-3/4", choices=("-1/2", "-3/4")
            ),
            Attribute("places", "ints"),
            Attribute(
                "rounding",
                "choice",
                required=False,
                default="floor",
                choices=("ceil", "floor", "half_down", "half_up"),
            ),
            Attribute("smooth", "bool", required=False, default=False),
        ),
        _require,
        _resize,
        (
            sample(
                "nearest", normal(2, 4, 5), method="nearest", alignment="asymmetric", places=(7, 3)
            ),
            sample(
                "exact",
                normal(2, 9),
                **{"method": "nearest", "alignment": "half", "rounding": "half_up"},
                places=(6,),
            ),
            sample("linear", normal(2, 4, 5), method="linear", alignment="half", places=(7, 3)),
            sample("corners", normal(2, 4, 5), method="linear", alignment="corners", places=(7, 1)),
            sample("cubic", normal(2, 5, 4), method="cubic", alignment="half", places=(3, 9)),
            sample(
                "cubic_corners", normal(1, 6), method="cubic", alignment="corners", places=(10,)
            ),
            sample(
                "scaled",
                normal(2, 5),
                **{"method": "linear", "alignment": "half", "numerators": (5,)},
                **{"denominators": (8,), "places": (8,)},
            ),
            sample(
                "smooth",
                normal(2, 23),
                **{"method": "cubic", "alignment": "half", "smooth": True, "parameter": "-1/2"},
                places=(4,),
            ),
            sample("empty", normal(0, 4), method="linear", alignment="half", places=(3,)),
            sample("size_1", normal(1), method="cubic", alignment="half", places=(1,)),
            sample(
                "strided", strided(normal(2, 4)), method="linear", alignment="half", places=(7,)
            ),
            sample("special", special(2, 5), method="linear", alignment="half", places=(7,)),
        ),
        "The trailing axes with the extents `places`. A place lies at (i + 1/2) s - 1/2 (half), "
        "i s (asymmetric) or such that first and last agree (corners), where s is the ratio of the "
        "extents or numerators over denominators. `smooth`: each place is a mean of all that it "
        "covers. Elements beyond the edge are those at the edge.",
    ),
)
