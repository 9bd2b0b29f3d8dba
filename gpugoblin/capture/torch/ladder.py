"""Climbing: one rung after the other, until a graph computes what the program computes.

Owns: the order, the comparison of every rung with eager, and which of several errors is told.
Runs in the child process only.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpugoblin.capture.torch.compare import TOLERANCE, difference, run_graph
from gpugoblin.capture.torch.library import load_torch, numpy_of
from gpugoblin.capture.torch.lowering import LoweredGraph, lower_trace
from gpugoblin.capture.torch.refusals import refusal_of
from gpugoblin.capture.torch.signs import catalog_signs, needs_signs
from gpugoblin.capture.torch.tracing import RUNGS
from gpugoblin.capture.torch.wrapping import Program
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import CaptureError

__all__ = ["Climbed", "climb", "eager", "tensors_of"]


@dataclass(frozen=True, slots=True)
class Climbed:
    """A graph, the rung that gave it, its largest difference from eager (None: random), what the
    other rungs said, and the results that the graph gives."""

    lowered: LoweredGraph
    rung: str
    difference: float | None
    refused: tuple[str, ...]
    values: tuple[Array, ...]


def eager(program: Program, *, signs: bool = False) -> list[Array]:
    """What the program itself computes, on a copy, as it may write to its buffers or arguments.

    Args:
        signs: give eigenvectors and factors the catalog's signs.
    """
    torch = load_torch()
    module, args, kwargs = copy.deepcopy((program.module, program.args, program.kwargs))
    torch.manual_seed(0)
    with torch.no_grad(), catalog_signs(signs):
        return [numpy_of(tensor) for tensor in module(*args, **kwargs)]


def tensors_of(program: Program) -> dict[tuple[str, str], Any]:
    """Every tensor that may be an input, by kind and name."""
    found: dict[tuple[str, str], Any] = {("argument", name): one for name, one in program.tensors}
    for name, tensor in program.state().items():
        found["parameter", name] = tensor
        found["buffer", name] = tensor
    return found


def climb(program: Program) -> Climbed:
    """The first rung whose graph equals eager.

    Raises:
        CaptureError: the most telling refusal of all rungs.
    """
    try:
        expected = eager(program)
    except Exception as error:  # the researcher's own program may raise anything
        raise refusal_of(error, program) from error
    told: list[CaptureError] = []
    for name, trace in RUNGS:
        try:
            lowered = lower_trace(trace(program))
            found = run_graph(lowered, tensors_of(program))
            gap = None if lowered.random else _gap(found, expected)
            if gap is not None and gap > TOLERANCE and needs_signs(lowered.graph):
                gap = _gap(found, eager(program, signs=True))
        except Exception as error:  # whatever stops one rung, the next is tried; each is told
            told.append(refusal_of(error, program))
            continue
        if gap is None or gap <= TOLERANCE:
            return Climbed(lowered, name, gap, tuple(map(str, told)), tuple(found))
        told.append(
            CaptureError(
                "capture_differs", subject=program.label, rung=name, difference=f"{gap:.1e}"
            )
        )
    raise _best(told)


def _gap(found: list[Array], expected: list[Array]) -> float:
    if len(found) != len(expected):
        return float("inf")
    return max(
        (difference(np.asarray(one), two) for one, two in zip(found, expected, strict=True)),
        default=0.0,
    )


_TELLING = (
    "operator_missing",
    "operator_refused",
    "branch_on_data",
    "program_too_large",
    "torch_input_refused",
    "capture_differs",
)


def _best(told: list[CaptureError]) -> CaptureError:
    """The refusal that says most, from the best rung that says it."""
    for code in _TELLING:
        for error in told:
            if error.code == code:
                return error
    return told[0]
