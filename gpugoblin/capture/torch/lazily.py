"""A function of torch, called on lazy arrays: what `gg.function` does with it.

Owns: the way from a captured graph to lazy values, and knowing such a function when it is seen.
The function is traced on small random numbers of the arrays' shapes; the arrays are not read.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpugoblin.capture.array import Array
from gpugoblin.capture.caller import Place
from gpugoblin.capture.convert import memory_value
from gpugoblin.capture.expression import CONSTANT, Expression, Value
from gpugoblin.capture.torch.capturing import capture
from gpugoblin.capture.torch.library import load_torch, numpy_of
from gpugoblin.capture.torch.program import Captured
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.errors import CaptureError

__all__ = ["call_lazily", "lazy_results", "speaks_torch"]

MAX_TRACED_ELEMENTS: Final = 1 << 26


def speaks_torch(f: Callable[..., Any], arguments: Sequence[object]) -> bool:
    """Whether a function is written with torch: by its arguments, or by the names that it uses.

    Does not import torch; where nobody has, no function can be written with it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    kinds = (torch.Tensor, torch.nn.Module)
    if isinstance(f, torch.nn.Module) or any(isinstance(one, kinds) for one in arguments):
        return True
    if not inspect.isfunction(f):
        return False
    used = inspect.getclosurevars(f)
    return any(
        one is torch
        or isinstance(one, kinds)
        or str(getattr(one, "__module__", "")).partition(".")[0] == "torch"
        or (inspect.ismodule(one) and one.__name__.partition(".")[0] == "torch")
        for one in (*used.globals.values(), *used.nonlocals.values())
    )


def call_lazily(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], place: Place
) -> Any:
    """The lazy results of a torch function: one array, or a tuple of them.

    Raises:
        CaptureError: as `gg.capture`; `program_too_large` for arrays that cannot be traced whole.
    """
    examples = [_example(one, place) for one in args]
    named = {key: _example(one, place) for key, one in kwargs.items()}
    found = capture(f, examples, named)
    given = [one for one in (*args, *kwargs.values()) if _is_tensor(one)]
    return lazy_results(found, given, place)


def _is_tensor(given: object) -> bool:
    return isinstance(given, Array | np.ndarray | load_torch().Tensor)


def _example(given: Any, place: Place) -> Any:
    """Numbers to trace on: a lazy array's are random, as nobody has computed them."""
    torch = load_torch()
    if isinstance(given, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(given))
    if not isinstance(given, Array):
        return given
    spec = given.value.spec
    if spec.count > MAX_TRACED_ELEMENTS:
        raise CaptureError(
            "program_too_large",
            line=place,
            reason=f"{spec} has more than {MAX_TRACED_ELEMENTS} elements to trace with",
        )
    return torch.from_numpy(_numbers(spec))


def _numbers(spec: TensorSpec) -> Any:
    generator = np.random.default_rng(0)
    if DTYPES[spec.dtype].kind == "f":
        return generator.standard_normal(spec.shape).astype(DTYPES[spec.dtype])
    return np.zeros(spec.shape, DTYPES[spec.dtype])


def lazy_results(found: Captured, arguments: Sequence[Any], place: Place) -> Any:
    """The graph's outputs as lazy arrays over `arguments`.

    Args:
        arguments: lazy arrays, arrays or tensors, one for each tensor argument.
    """
    if 2 in found.outputs:
        raise CaptureError(
            "not_an_array",
            line=place,
            subject=f"a result of {found.label}",
            kind="complex",
            fix="Return its real and imaginary parts.",
        )
    values = _inputs(found, arguments, place)
    values.extend(
        Value(Expression(CONSTANT, (), (one.spec,), data=one.array(), place=place), 0)
        for one in found.graph.constants
    )
    for first, node in found.graph.numbered_nodes():
        made = Expression(
            node.operator,
            tuple(values[value] for value in node.inputs),
            node.outputs,
            node.attrs,
            place=found.lines.get(first, place),
        )
        values.extend(Value(made, output) for output in range(len(node.outputs)))
    results = [Array(values[value]) for value in found.graph.outputs[: len(found.outputs)]]
    return results[0] if len(results) == 1 else tuple(results)


def _inputs(found: Captured, arguments: Sequence[Any], place: Place) -> list[Value]:
    names = dict.fromkeys(one.name for one in found.inputs if one.kind == "argument")
    given = dict(zip(names, arguments, strict=True))
    values = []
    for one in found.inputs:
        if one.kind == "argument":
            argument = given[one.name]
            if isinstance(argument, Array):
                values.append(argument.value)
                continue
            array = argument if isinstance(argument, np.ndarray) else numpy_of(argument)
        elif one.kind == "key":
            array = np.zeros(2, np.int64)
        else:
            array = one.data if one.data is not None else found.weights[one.name]
        values.append(memory_value(array, place))
    return values
