"""The operator `fft`: discrete Fourier transforms over several axes. Owns: its declaration.

A complex number is a pair of floats on a trailing axis of extent 2. Axes are counted without it,
so that an axis has one number in the real and in the complex tensor.

What the catalog asks of backends: an error of at most `LEVEL` u (log2 n + 1) of the length of the
whole result, n being the number of elements transformed together; fast transforms of any radix stay
within that (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002,
theorem 24.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.fft  # now: an engine behind its walls cannot load it at its first use

from gpugoblin.catalog.building import expression, reshaped
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rounding import finite_part, format_of, guard_overflow
from gpugoblin.catalog.rules import (
    bool_attribute,
    int_attribute,
    ints_attribute,
    moved,
    require_dtype,
    shapes_error,
    text_attribute,
)
from gpugoblin.catalog.samples import normal, sample, special, strided
from gpugoblin.catalog.spec import (
    FLOATS,
    Array,
    Attribute,
    Attributes,
    Builder,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)
from gpugoblin.errors import GraphError

__all__ = ["FFT", "LEVEL", "OPERATORS", "transform"]

LEVEL: Final = 16.0

_SWAPPED: Final = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _invalid(attribute: str, value: object, reason: str) -> GraphError:
    return GraphError(
        "attribute_invalid", operator="fft", attribute=attribute, value=value, reason=reason
    )


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    spec, kind = inputs[0], text_attribute(attributes, "kind")
    axes, length = ints_attribute(attributes, "axes"), int_attribute(attributes, "length")
    require_dtype("fft", spec, FLOATS)
    shape = list(spec.shape)
    if kind != "r2c" and (not shape or shape.pop() != 2):
        raise shapes_error("fft", inputs, "complex numbers are pairs on a last axis of extent 2")
    if not axes or len(set(axes)) != len(axes) or not all(0 <= a < len(shape) for a in axes):
        raise _invalid("axes", axes, f"distinct axes from 0 to {len(shape) - 1} are wanted")
    if any(shape[axis] == 0 for axis in axes):
        raise shapes_error("fft", inputs, "an axis of extent 0 has no transform")
    last = axes[-1]
    if kind == "c2r":
        if length < 1 or length // 2 + 1 != shape[last]:
            raise _invalid("length", length, f"one whose half plus 1 is {shape[last]} is wanted")
        shape[last] = length
        return (TensorSpec(spec.dtype, tuple(shape)),)
    if length:
        raise _invalid("length", length, "only c2r has one")
    if kind == "r2c":
        shape[last] = shape[last] // 2 + 1
    return (TensorSpec(spec.dtype, (*shape, 2)),)


def _count(shape: Sequence[int], attributes: Attributes) -> int:
    """Elements that are transformed together, of an input of this shape."""
    axes, length = ints_attribute(attributes, "axes"), int_attribute(attributes, "length")
    extents = [shape[axis] for axis in axes]
    if length:
        extents[-1] = length
    return math.prod(extents)


def _scale(count: int, attributes: Attributes) -> float:
    norm = text_attribute(attributes, "norm")
    if norm == "ortho":
        return 1.0 / math.sqrt(count)
    scaled = norm == ("backward" if bool_attribute(attributes, "inverse") else "forward")
    return 1.0 / count if scaled else 1.0


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    count = max(2, _count(inputs[0].shape, attributes))
    most = max(inputs[0].count, outputs[0].count)
    # Twice the operand as complex numbers, and one line of work space.
    scratch = 48 * most + 64 * count
    return moved(inputs, outputs, int(2.5 * most * math.log2(count)), scratch)


def transform(array: Array, attributes: Attributes) -> Array:
    """The transform in the precision of `array`, with pairs in and out."""
    kind, inverse = text_attribute(attributes, "kind"), bool_attribute(attributes, "inverse")
    axes = ints_attribute(attributes, "axes")
    pairs: Any = np.complex64 if array.dtype == np.float32 else np.complex128
    scale = array.dtype.type(_scale(_count(array.shape, attributes), attributes))
    if kind == "r2c":
        found = np.fft.rfftn(array, axes=axes)
        found = np.conj(found) if inverse else found
    else:
        value = np.ascontiguousarray(array).view(pairs)[..., 0]
        if kind == "c2r":
            value = value if inverse else np.conj(value)
            extents = [value.shape[axis] for axis in axes]
            extents[-1] = int_attribute(attributes, "length")
            real = np.fft.irfftn(value, s=extents, axes=axes, norm="forward")
            return np.asarray(real * scale, array.dtype)
        if inverse:
            found = np.fft.ifftn(value, axes=axes, norm="forward")
        else:
            found = np.fft.fftn(value, axes=axes)
    scaled = np.ascontiguousarray(found * scale, pairs)
    return scaled[..., None].view(array.dtype)


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        found = transform(inputs[0].astype(np.float64), attributes)
        return (np.array(found, inputs[0].dtype, order="C"),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    axes, kind = ints_attribute(attributes, "axes"), text_attribute(attributes, "kind")
    before = inputs[0].rank
    count = before if kind == "r2c" else before - 1
    found = [
        Split(f"i{axis}", "whole" if axis in axes else "parallel", (axis,), axis)
        for axis in range(count)
    ]
    if kind != "r2c":
        found.append(Split("p", "whole", (count,), None if kind == "c2r" else count))
    else:
        found.append(Split("p", "whole", (None,), count))
    return tuple(found)


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """Each element is within `LEVEL` u (log2 n + 1) of the length of its whole transform, which is
    that of the operand times the root of n; errors of the operand add up."""
    array, kind = inputs[0], text_attribute(attributes, "kind")
    count = _count(array.shape, attributes)
    scale = _scale(count, attributes)
    places = tuple(ints_attribute(attributes, "axes"))
    if kind != "r2c":
        places = (*places, array.ndim - 1)
    loose = np.broadcast_to(0.0 if errors[0] is None else errors[0], array.shape)
    with np.errstate(all="ignore"):
        # c2r stands for a whole line, of which it is given half.
        twice = 2.0 if kind == "c2r" else 1.0
        wide = np.abs(finite_part(array)) + loose
        length = np.sqrt(twice * np.sum(np.square(wide), axis=places, keepdims=True))
        form = format_of(inputs)
        own = LEVEL * form.unit * (math.log2(count) + 1.0) * scale * math.sqrt(count) * length
        carried = scale * twice * np.sum(loose, axis=places, keepdims=True)
        flush = scale * twice * 2 * count * form.tiny + form.tiny
        size = twice * np.sum(wide, axis=places, keepdims=True)
        error = guard_overflow(size, own + carried + flush, form)
        whole = np.isfinite(array).all(axis=places, keepdims=True)
        error = np.where(whole & ~np.isnan(error), error, np.inf)
    if kind == "r2c":
        error = error[..., None]
    elif kind == "c2r":
        error = error[..., 0]
    return (error,)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """The transform is linear: its adjoint runs the other way with the same scale. Half a line
    stands for both of its halves, which meet in it once at each end and twice between."""
    (seed,) = seeds
    if seed is None:
        return (None,)
    kind, axes = text_attribute(attributes, "kind"), ints_attribute(attributes, "axes")
    norm = _SWAPPED[text_attribute(attributes, "norm")]
    inverse = not bool_attribute(attributes, "inverse")
    shape = builder.spec(inputs[0]).shape
    if kind == "c2c":
        found = builder.add("fft", [seed], axes=axes, inverse=inverse, kind=kind, norm=norm)
    elif kind == "r2c":
        length = shape[axes[-1]]
        halved = _weighted(builder, seed, axes[-1], length, 0.5)
        found = builder.add(
            "fft", [halved], axes=axes, inverse=inverse, kind="c2r", length=length, norm=norm
        )
    else:
        length = int_attribute(attributes, "length")
        half = builder.add("fft", [seed], axes=axes, inverse=inverse, kind="r2c", norm=norm)
        found = _weighted(builder, half, axes[-1], length, 2.0)
    return (found,)


def _weighted(builder: Builder, value: int, axis: int, length: int, weight: float) -> int:
    """Half a line with what stands for two elements of the whole line times `weight`."""
    spec = builder.spec(value)
    extent = spec.shape[axis]
    line = (extent, *(1,) * (spec.rank - axis - 1))
    places = reshaped(builder, builder.add("iota", [], count=extent, dtype="int64"), line)

    def write(build: FormulaBuilder, x: int, place: int) -> int:
        first = build.call("eq", place, build.const("int64", 0))
        doubled = build.call("mul", place, build.const("int64", 2))
        middle = build.call("eq", doubled, build.const("int64", length))
        once = build.call("or", first, middle)
        scaled = build.call("mul", x, build.const(spec.dtype, weight))
        return build.call("where", once, x, scaled)

    return expression(builder, [value, places], write)


FFT: Final = Operator(
    name="fft",
    version=1,
    arity=(1, 1),
    attributes=(
        Attribute("axes", "ints"),
        Attribute("inverse", "bool", required=False, default=False),
        Attribute("kind", "choice", choices=("c2c", "r2c", "c2r")),
        Attribute("length", "int", required=False, default=0),
        Attribute(
            "norm",
            "choice",
            required=False,
            default="backward",
            choices=("backward", "ortho", "forward"),
        ),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("line", normal(3, 8, 2), axes=(1,), kind="c2c"),
        sample("inverse", normal(5, 3, 2), axes=(0,), inverse=True, kind="c2c"),
        sample("plane", normal(2, 4, 3, 2), axes=(2, 1), kind="c2c", norm="ortho"),
        sample("real_even", normal(3, 8), axes=(1,), kind="r2c"),
        sample("real_odd", normal(3, 7), axes=(0, 1), kind="r2c", norm="forward"),
        sample("real_inverse", normal(6), axes=(0,), inverse=True, kind="r2c"),
        sample("to_real", normal(3, 5, 2), axes=(1,), inverse=True, kind="c2r", length=8),
        sample("to_real_odd", normal(4, 3, 2), axes=(0, 1), inverse=True, kind="c2r", length=5),
        sample("to_real_forward", normal(3, 2), axes=(0,), kind="c2r", length=4, norm="ortho"),
        sample("empty", normal(0, 4, 2), axes=(1,), kind="c2c"),
        sample("size_1", normal(1), axes=(0,), kind="r2c"),
        sample("strided", strided(normal(3, 4)), axes=(1,), kind="r2c"),
        sample("special", special(5, 4, 2), axes=(1,), kind="c2c"),
        sample("long", normal(1000, 2, scale=100.0), axes=(0,), kind="c2c"),
    ),
    summary="The discrete Fourier transform over axes. Complex numbers are pairs on a last axis of "
    "extent 2, which is not counted among the axes. `r2c` gives the first half plus 1 of the last "
    "of the axes, `c2r` takes that and gives `length` elements. `norm` says which way is scaled by "
    "1/n (`ortho`: both by its root).",
    grad=_grad,
)

OPERATORS: Final = (FFT,)
