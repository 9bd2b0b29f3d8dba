"""Reductions: sum, mean, var, prod, max, min, any, all, argmax, argmin.

Owns: NumPy's axis arguments and result dtypes on top of `reduce` and `reduce_arg`.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.capture.applying import apply, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.elementwise import cast, elementwise
from gpugoblin.capture.expression import Value
from gpugoblin.capture.shaping import normal_axis, reshape
from gpugoblin.catalog.spec import FLOATS

__all__ = ["Axis", "kept_shape", "mean_of", "reduce", "reduce_arg", "variance"]

Axis = int | tuple[int, ...] | None

_WIDENED: Final = frozenset({"int32", "bool"})


def reduce(function: str, value: Value, axis: Axis, keepdims: bool, place: Place) -> Value:
    """One of `sum`, `prod`, `max`, `min`, `any`, `all` over `axis` (None: over all).

    Sums and products of int32 and bool are int64, as in NumPy; `any` and `all` of numbers ask
    whether they differ from 0.

    Raises:
        CaptureError: `argument_refused`.
    """
    if function in ("sum", "prod") and value.spec.dtype in _WIDENED:
        value = cast(value, "int64", place)
    elif function in ("any", "all"):
        value = cast(value, "bool", place)
    elif function in ("max", "min") and value.spec.dtype == "bool":
        other = "any" if function == "max" else "all"
        raise refused(function, [value], "it takes numbers", f"Use .{other}().", place)
    return _apply(function, value, axis, keepdims, place)


def mean_of(value: Value, axis: Axis, keepdims: bool, place: Place) -> Value:
    """The arithmetic mean of floats."""
    if value.spec.dtype not in FLOATS:
        raise refused("mean", [value], "it takes floats", 'Convert it: .astype("float32").', place)
    return _apply("mean", value, axis, keepdims, place)


def variance(value: Value, axis: Axis, correction: float, keepdims: bool, place: Place) -> Value:
    """The sum of squared distances from the mean over `count - correction`, in two passes."""
    centered = elementwise("sub", (value, mean_of(value, axis, True, place)), place)
    total = reduce("sum", elementwise("mul", (centered, centered), place), axis, keepdims, place)
    kept = total.spec.count
    count = value.spec.count // kept if kept else 0
    return elementwise("div", (total, float(max(0.0, count - correction))), place)


def reduce_arg(
    function: str, value: Value, axis: int | None, keepdims: bool, place: Place
) -> Value:
    """`argmax` or `argmin` along one axis, as int64; None counts all elements in C order."""
    rank = value.spec.rank
    if axis is None:
        value = reshape(value, (-1,), place)
        found = Value(apply("reduce_arg", [value], place, function=function, axis=0), 0)
        return reshape(found, (1,) * rank, place) if keepdims else found
    axis = normal_axis(function, value, axis, place)
    node = apply("reduce_arg", [value], place, function=function, axis=axis, keepdims=keepdims)
    return Value(node, 0)


def kept_shape(value: Value, axis: Axis, place: Place) -> tuple[int, ...]:
    """The shape without the axes of `axis`."""
    gone = _axes("reduce", value, axis, place)
    return tuple(n for one, n in enumerate(value.spec.shape) if one not in gone)


def _apply(function: str, value: Value, axis: Axis, keepdims: bool, place: Place) -> Value:
    axes = _axes(function, value, axis, place)
    node = apply("reduce", [value], place, function=function, axes=axes, keepdims=keepdims)
    return Value(node, 0)


def _axes(function: str, value: Value, axis: Axis, place: Place) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(value.spec.rank))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted({normal_axis(function, value, item, place) for item in given}))
    if len(axes) != len(given):
        raise refused(
            function, [value], f"{axis} names an axis twice", "Name each axis once.", place
        )
    return axes
