"""Reductions: sum, mean, prod, max, min, any, all, argmax, argmin.

Owns: NumPy's axis arguments and result dtypes on top of `reduce` and `reduce_arg`.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.capture.applying import apply, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.elementwise import cast
from gpugoblin.capture.expression import Value
from gpugoblin.capture.shaping import normal_axis, reshape

__all__ = ["Axis", "mean_of", "reduce", "reduce_arg"]

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
        raise refused(
            function, [value], "it takes float32, int32, int64", f"Use .{other}().", place
        )
    return _apply(function, value, axis, keepdims, place)


def mean_of(value: Value, axis: Axis, keepdims: bool, place: Place) -> Value:
    """The arithmetic mean of float32."""
    if value.spec.dtype != "float32":
        raise refused("mean", [value], "it takes float32", 'Convert it: .astype("float32").', place)
    return _apply("mean", value, axis, keepdims, place)


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


def _apply(function: str, value: Value, axis: Axis, keepdims: bool, place: Place) -> Value:
    if axis is None:
        axes = tuple(range(value.spec.rank))
    else:
        given = (axis,) if isinstance(axis, int) else tuple(axis)
        axes = tuple(sorted({normal_axis(function, value, item, place) for item in given}))
        if len(axes) != len(given):
            raise refused(
                function, [value], f"{axis} names an axis twice", "Name each axis once.", place
            )
    node = apply("reduce", [value], place, function=function, axes=axes, keepdims=keepdims)
    return Value(node, 0)
