"""`gg.capture`. Owns: that function: the child process around the ladder."""

from __future__ import annotations

import dataclasses
import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gpugoblin.capture.torch.batching import batched
from gpugoblin.capture.torch.handover import Refusal, read_capture, refusal, write_capture
from gpugoblin.capture.torch.isolation import isolated
from gpugoblin.capture.torch.known import require_known_torch
from gpugoblin.capture.torch.ladder import Climbed, climb, most_telling, step_up
from gpugoblin.capture.torch.library import load_torch, load_tracers
from gpugoblin.capture.torch.program import Captured, weights_of
from gpugoblin.capture.torch.tracing import RUNGS
from gpugoblin.capture.torch.wrapping import Program, make_program
from gpugoblin.errors import CaptureError

__all__ = ["capture", "quietly", "run_apart"]


def capture(
    subject: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    isolate: bool = True,
    timeout_seconds: float = 900.0,
    batch: bool = False,
) -> Captured:
    """A PyTorch module or function as a graph of catalog operators.

    The program is traced in a forked process, by several ways until one gives a graph that equals
    the program on `args`. Weights become inputs of the graph by name. Nothing is sent.

    Args:
        subject: a torch.nn.Module, or a function of tensors.
        args: example arguments; their shapes are the graph's.
        batch: captures for every extent of the first axis at once; `.at(n)` of the result is the
            capture for n. The arguments' own first extent is the one of the result's graph.
        isolate: False traces in this process, which a trace that fails can leave spoiled.

    Raises:
        CaptureError: `operator_missing`, `operator_refused`, `branch_on_data`,
            `program_too_large`, `batch_refused`, `torch_input_refused`, `capture_differs`,
            `capture_failed`, with the line of the program; `torch_missing`, `torch_unknown`,
            `capture_needs_fork`, `capture_died`.
    """
    load_torch()
    program = make_program(subject, tuple(args), kwargs)

    def once(given: Program) -> Captured:
        return read_capture(run_apart(given, write_capture, isolate, timeout_seconds), given.label)

    found = batched(program, once) if batch else once(program)
    return dataclasses.replace(found, weights=weights_of(program.state(), found.inputs))


def run_apart(
    program: Program,
    then: Callable[[Climbed | CaptureError], bytes],
    isolate: bool,
    timeout_seconds: float,
) -> bytes:
    """The bytes that `then` makes of what the ladder gives, both in a child unless that is not
    wished. Every rung has a child of its own, as a trace that fails spoils those after it.

    Raises:
        CaptureError: `torch_unknown`, `capture_needs_fork`, `capture_died`.
    """
    require_known_torch()
    if not isolate:
        try:
            return then(climb(program))
        except CaptureError as error:
            return then(error)
    load_tracers()
    ends = time.monotonic() + timeout_seconds
    told: list[CaptureError] = []
    for place in range(len(RUNGS)):
        data = isolated(
            lambda place=place: quietly(lambda: _rung(program, place, told, then)),  # type: ignore[misc]
            program.label,
            max(0.0, ends - time.monotonic()),
        )
        if data[:1] == _DONE:
            return data[1:]
        given = msgspec.msgpack.decode(data[1:], type=Refusal)
        told.append(CaptureError(given.code, **given.fields))
    return then(most_telling(told))


_DONE: Final = b"+"


def _rung(
    program: Program,
    place: int,
    told: Sequence[CaptureError],
    then: Callable[[Climbed | CaptureError], bytes],
) -> bytes:
    """In the child: what `then` made, or the refusal of this rung."""
    try:
        found = step_up(program, place, told)
    except CaptureError as error:
        return _DONE + then(error)
    if isinstance(found, Climbed):
        return _DONE + then(found)
    return b"-" + msgspec.msgpack.encode(refusal(found))


def quietly(work: Callable[[], bytes]) -> bytes:
    """In the child: one thread, as others do not survive a fork, and no chatter of the tracer."""
    load_torch().set_num_threads(1)
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()
