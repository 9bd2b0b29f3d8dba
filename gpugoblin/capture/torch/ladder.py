"""Climbing: one rung after the other, until a graph computes what the program computes.

Owns: the order, the comparison of every rung with eager, and which of several errors is told.
Runs in the child process only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpugoblin.capture.torch.assertions import answered, checks_of
from gpugoblin.capture.torch.compare import TOLERANCE, difference, run_graph
from gpugoblin.capture.torch.lowering import LoweredGraph, lower_trace
from gpugoblin.capture.torch.refusals import refusal_of
from gpugoblin.capture.torch.running import double_values, eager, tensors_of
from gpugoblin.capture.torch.signs import needs_signs
from gpugoblin.capture.torch.tracing import RUNGS, Apart, Traced, has_decomposition
from gpugoblin.capture.torch.wrapping import Program
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import CaptureError

__all__ = ["TOLERANCE", "Climbed", "climb", "most_telling", "own_bound", "step_up"]


@dataclass(frozen=True, slots=True)
class Climbed:
    """A graph, and what was found about it.

    Args:
        rung: that gave it. difference: the largest from eager; None where random numbers are drawn.
        refused: what the other rungs said.
        bound: what difference is admitted; more than `TOLERANCE` only where eager itself is
            farther than that from float64, and the graph no farther than eager.
    """

    lowered: LoweredGraph
    rung: str
    difference: float | None
    refused: tuple[str, ...]
    bound: float = TOLERANCE


def climb(program: Program) -> Climbed:
    """The first rung whose graph equals eager, all in this process.

    Raises:
        CaptureError: the most telling refusal of all rungs.
    """
    told: list[CaptureError] = []
    for place in range(len(RUNGS)):
        found = step_up(program, place, told)
        if isinstance(found, Climbed):
            return found
        told.append(found)
    raise most_telling(told)


def step_up(program: Program, place: int, told: Sequence[CaptureError]) -> Climbed | CaptureError:
    """One rung by its number, and what it said if it failed.

    Raises:
        CaptureError: the program itself does not run.
    """
    runs: list[list[Array]] = []
    try:
        checks = checks_of(lambda: runs.append(eager(program)))
    except Exception as error:  # the researcher's own program may raise anything
        raise refusal_of(error, program.label) from error
    expected = runs[0]
    name, trace = RUNGS[place]
    try:
        with answered(checks):
            lowered = _lowered(trace, program)
        found = run_graph(lowered, tensors_of(program), quick=True)
        gap = None if lowered.random else _gap(found, expected)
        if gap is not None and gap > TOLERANCE:
            found = run_graph(lowered, tensors_of(program))
            gap = _gap(found, expected)
        if gap is not None and gap > TOLERANCE and needs_signs(lowered.graph):
            gap = _gap(found, eager(program, signs=True))
        bound = TOLERANCE if gap is None or gap <= TOLERANCE else own_bound(program, lowered, found)
    except Exception as error:  # whatever stops one rung, the next is tried; each is told
        return refusal_of(error, program.label)
    if gap is None or gap <= bound:
        return Climbed(lowered, name, gap, tuple(map(str, told)), bound)
    return CaptureError(
        "capture_differs", subject=program.label, rung=name, difference=f"{gap:.1e}"
    )


_MOST_OWN_ERROR: Final = 1e-3
_MOST_OF_HALVES: Final = 0.1
"""Of a program that computes in 16 bits, of which bfloat16 has three digits."""


def own_bound(program: Program, lowered: LoweredGraph, found: list[Array]) -> float:
    """A program may itself be farther from float64 than the tolerance. The graph is then right if
    it is no farther than the program; both together bound their difference."""
    signs = needs_signs(lowered.graph)
    wide = double_values(program, signs=signs)
    if wide is None:
        return TOLERANCE
    own = _gap(eager(program, signs=signs), wide)
    most = _MOST_OF_HALVES if lowered.halves else _MOST_OWN_ERROR
    right = own <= most and _gap(found, wide) <= max(TOLERANCE, own)
    return max(TOLERANCE, 2 * own) if right else TOLERANCE


_MOST_APART: Final = 12


def _lowered(trace: Callable[[Program, Apart], Traced], program: Program) -> LoweredGraph:
    """The lowered trace. An operator whose rule refuses what the program asks of it is left to
    torch's decomposition, where there is one."""
    apart: Apart = frozenset()
    first: CaptureError | None = None
    for _ in range(_MOST_APART):
        try:
            return lower_trace(trace(program, apart))
        except CaptureError as error:
            first = first or error
            name = str(error.fields.get("operator", "")).removeprefix("aten.")
            if error.code != "operator_refused" or name in apart or not has_decomposition(name):
                raise first from None
            apart |= {name}
    raise first or AssertionError


def _gap(found: list[Array], expected: list[Array]) -> float:
    if len(found) != len(expected):
        return float("inf")
    return max(
        (difference(np.asarray(one), two) for one, two in zip(found, expected, strict=True)),
        default=0.0,
    )


_TELLING = (
    ("operator_missing", "operator_refused"),
    ("branch_on_data",),
    ("program_too_large",),
    ("torch_input_refused",),
    ("capture_differs",),
)


def most_telling(told: Sequence[CaptureError]) -> CaptureError:
    """The refusal that says most, from the best rung that says it."""
    for codes in _TELLING:
        for error in told:
            if error.code in codes:
                return error
    return told[0]
