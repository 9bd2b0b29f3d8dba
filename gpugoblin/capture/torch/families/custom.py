"""The results of an autograd.Function, with its own derivative. Owns: their lowering.

A backward that cannot be said leaves the values and refuses the gradient: it is never that of the
forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.functions import BATCHED, Call, trace_backward
from gpugoblin.capture.torch.refusals import refusal_of
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Pair, Value
from gpugoblin.catalog.bodies import replay
from gpugoblin.catalog.program import Graph
from gpugoblin.errors import GraphError

__all__: list[str] = []


@aten("gpugoblin.custom_gradient")
def custom_gradient(
    c: Context, results: Sequence[Any], seen: Sequence[Any], number: int
) -> list[Any]:
    if number == BATCHED:
        c.refused.append("A torch.autograd.Function under torch.vmap: its backward cannot be said.")
        return [_refused(c, one) for one in results]
    call: Call = c.calls[number]
    operands = len(call.given)
    inputs = [*results, *seen[:operands], *map(_kept(c, results, seen), seen[operands:])]
    try:
        if any(isinstance(one, Pair) for one in inputs):
            raise Unsupported("complex numbers")
        backward = _backward(c, call, [c.spec(one) for one in inputs])
        attributes: dict[str, Any] = {"backward": backward}
        return list(
            c.ops("custom_gradient", inputs, operands=operands, results=len(results), **attributes)
        )
    except Exception as cause:  # the program's own backward may raise anything; that is told
        name = f"the backward of {call.kind.__name__}"
        told = cause if isinstance(cause, GraphError) else refusal_of(cause, name)
        c.refused.append(f"{call.place}: {name} cannot be said. {told}")
        return [_refused(c, one) for one in results]


def _kept(c: Context, results: Sequence[Any], seen: Sequence[Any]) -> Any:
    """What a forward saves beside its operands and results is a number to its backward, as torch
    does not record how it was made."""
    return lambda value: c.stopped(value) if isinstance(value, Value) else value


def _backward(c: Context, call: Call, specs: Sequence[Any]) -> Graph:
    seeds = specs[: call.results]
    found = c.lower_body(trace_backward(call, c.calls), [*specs, *seeds])
    if not call.once:
        return found

    def write(inner: Any, values: Sequence[int]) -> Sequence[int]:
        return [inner.add("no_gradient", [one]) for one in replay(found, inner, values)]

    return c.builder.body(found.inputs, write)


def _refused(c: Context, result: Any) -> Any:
    if isinstance(result, Pair):
        return Pair(_refused(c, result.real), _refused(c, result.imag))
    return c.op("no_gradient", [result])
