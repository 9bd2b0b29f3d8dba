"""A capture whose first axis is any batch.

Owns: the sizes that a program is captured at, the arguments there, and the comparison with a third
size. torch's own symbolic shapes are not asked: a lowering would have to carry symbols through
every rule, where two plain captures and their template carry them through none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from gpugoblin.capture.torch.library import load_torch
from gpugoblin.capture.torch.lowering import Input
from gpugoblin.capture.torch.program import Captured
from gpugoblin.capture.torch.tracing import replaced
from gpugoblin.capture.torch.wrapping import Program
from gpugoblin.errors import CaptureError, GraphError
from gpugoblin.graph.template import unify

__all__ = ["batched"]

_SIZES: Final = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
"""Primes, so that no extent of the program is a batch by chance; those it has are passed over."""


def batched(program: Program, capture: Callable[[Program], Captured]) -> Captured:
    """The capture at the batch of the program's arguments, with the template of all others.

    The batch is the first extent of the first tensor argument; every tensor argument with that
    first extent is cut along it.

    Args:
        capture: of one program of fixed shapes.

    Raises:
        CaptureError: `batch_refused`, where the program has no batch, or does not follow it as a
            template can say; else what `capture` raises.
    """
    batch = _batch_of(program)
    sizes = _sizes(program)
    found = [capture(_at(program, batch, size)) for size in sizes]
    first, second, third = found
    try:
        for other in (second, third):
            _same_inputs(first.inputs, other.inputs)
        template = unify(first.graph, sizes[0], second.graph, sizes[1])
        if template.bind(sizes[2]) != third.graph:
            raise _refused(program, f"its graph at batch {sizes[2]} is not that of the others")
        graph = template.bind(batch)
    except GraphError as error:
        raise _refused(program, error.what.rstrip(".")) from error
    gaps = [one.difference for one in found if one.difference is not None]
    worst = max(gaps) if len(gaps) == len(found) else None
    return dataclasses.replace(first, graph=graph, template=template, difference=worst)


def _refused(program: Program, reason: str) -> CaptureError:
    return CaptureError("batch_refused", subject=program.label, reason=reason)


def _batch_of(program: Program) -> int:
    for _, tensor in program.tensors:
        if tensor.dim():
            return int(tensor.shape[0])
    raise _refused(program, "no tensor argument has an axis")


def _sizes(program: Program) -> tuple[int, int, int]:
    tensors = [*(one for _, one in program.tensors), *program.state().values()]
    taken = {int(extent) for tensor in tensors for extent in tensor.shape}
    free = [size for size in _SIZES if size not in taken]
    if len(free) < 3:
        raise _refused(program, "too many of its extents are small primes")
    return free[0], free[1], free[2]


def _at(program: Program, batch: int, size: int) -> Program:
    """The program with its arguments' rows repeated, or left out, up to a size."""
    torch = load_torch()
    rows = torch.arange(size) % batch
    tensors = tuple(
        (name, one[rows] if one.dim() and one.shape[0] == batch else one)
        for name, one in program.tensors
    )
    given: Iterator[Any] = iter([one for _, one in tensors])
    args, kwargs = replaced((program.args, program.kwargs), given)
    return dataclasses.replace(program, args=args, kwargs=kwargs, tensors=tensors)


def _same_inputs(one: Sequence[Input], other: Sequence[Input]) -> None:
    """Inputs are compared by what they are; large constants by their numbers too."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        data = (a.data is None) == (b.data is None) and (
            a.data is None or b.data is None or a.data.tobytes() == b.data.tobytes()
        )
        if (a.kind, a.name, a.part) != (b.kind, b.name, b.part) or not data:
            raise GraphError(
                "not_a_template", where=f"input {place}", reason=f"{a.name} is not {b.name}"
            )
