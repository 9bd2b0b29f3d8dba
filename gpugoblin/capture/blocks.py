"""Functions of lazy arrays: `gg.function` and `gg.map_blocks`.

Owns: both. A function is called once, on lazy arrays, and what it did is the graph; it is never
sent. Must not: cut anything; the planner does, along the axis that is named here.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from gpugoblin.capture.applying import refused
from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.convert import memory_value
from gpugoblin.capture.shaping import normal_axis
from gpugoblin.errors import CaptureError

__all__ = ["function", "map_blocks"]

P = ParamSpec("P")
R = TypeVar("R")


def function(f: Callable[P, R]) -> Callable[P, R]:
    """Marks a function of arrays: ndarrays among its arguments become lazy arrays.

    The function is written with the operators of `Array` and the functions of gg, and returns a
    lazy array, or a tuple, list or dictionary of them. Or it is written with torch: then it is
    captured (see `gg.capture`), and returns a lazy array or a tuple of them.

    Raises (when called):
        CaptureError: `not_an_array` when it returns numbers that were computed here; for a
            function of torch what `gg.capture` raises.
    """

    @functools.wraps(f)
    def captured(*args: P.args, **kwargs: P.kwargs) -> R:
        place = caller()
        if "torch" in sys.modules:
            from gpugoblin.capture.torch.lazily import call_lazily, speaks_torch

            if speaks_torch(f, (*args, *kwargs.values())):
                return cast(R, call_lazily(f, args, kwargs, place))
        lazy = [_lazy(argument, place) for argument in args]
        named = {key: _lazy(argument, place) for key, argument in kwargs.items()}
        result = f(*lazy, **named)
        _require_lazy(result, getattr(f, "__name__", "the function"), place)
        return result

    return captured


def map_blocks(f: Callable[[Array], Array], array: ArrayLike, axis: int = 0) -> Array:
    """`f(array)`, computed block by block along `axis`.

    The result is the same as that of the whole array: `f` must treat the positions along `axis`
    independently (rows of a table, images of a batch), and the planner refuses one that does not.
    Arrays that `f` uses beside its argument are given whole to every block.

    Args:
        f: takes and returns a lazy array; the extent along `axis` stays.
        axis: of the array and of the result.

    Raises:
        CaptureError: `argument_refused`, `not_an_array`.
    """
    place = caller()
    value = as_value(array, place)
    axis = normal_axis("map_blocks", value, axis, place)
    result = f(Array(value))
    _require_lazy(result, getattr(f, "__name__", "the function"), place)
    if not isinstance(result, Array):
        raise _not_lazy(getattr(f, "__name__", "the function"), result, place)
    spec = result.value.spec
    if spec.rank <= axis or spec.shape[axis] != value.spec.shape[axis]:
        raise refused(
            "map_blocks",
            [value],
            f"the function gives {spec}, without axis {axis} of extent {value.spec.shape[axis]}",
            "Keep the axis that is cut; reduce over it after map_blocks.",
            place,
        )
    return Array(result.value, block_axis=axis)


def _lazy(argument: Any, place: Place) -> Any:
    return Array(memory_value(argument, place)) if isinstance(argument, np.ndarray) else argument


def _require_lazy(result: object, name: str, place: Place) -> None:
    parts: list[object] = [result]
    while parts:
        part = parts.pop()
        if isinstance(part, list | tuple):
            parts.extend(part)
        elif isinstance(part, dict):
            parts.extend(part.values())
        elif not isinstance(part, Array):
            raise _not_lazy(name, part, place)


def _not_lazy(name: str, result: object, place: Place) -> CaptureError:
    return CaptureError(
        "not_an_array",
        line=place,
        subject=f"the result of {name}",
        kind=f"a {type(result).__name__}",
        fix="Return what gg's functions and operators give; numbers are computed on the network.",
    )
