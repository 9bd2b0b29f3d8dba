"""`gg.capture`. Owns: that function: the child process around the ladder."""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpugoblin.capture.torch.handover import read_capture, write_capture
from gpugoblin.capture.torch.isolation import isolated
from gpugoblin.capture.torch.ladder import climb
from gpugoblin.capture.torch.library import load_torch, load_tracers
from gpugoblin.capture.torch.program import Captured, weights_of
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
) -> Captured:
    """A PyTorch module or function as a graph of catalog operators.

    The program is traced in a forked process, by several ways until one gives a graph that equals
    the program on `args`. Weights become inputs of the graph by name. Nothing is sent.

    Args:
        subject: a torch.nn.Module, or a function of tensors.
        args: example arguments; their shapes are the graph's.
        isolate: False traces in this process, which a trace that fails can leave spoiled.

    Raises:
        CaptureError: `operator_missing`, `operator_refused`, `branch_on_data`,
            `program_too_large`, `torch_input_refused`, `capture_differs`, `capture_failed`, with
            the line of the program; `torch_missing`, `capture_needs_fork`, `capture_died`.
    """
    load_torch()
    program = make_program(subject, tuple(args), kwargs)
    data = run_apart(lambda: _climbed(program), program.label, isolate, timeout_seconds)
    found = read_capture(data, program.label)
    return dataclasses.replace(found, weights=weights_of(program.state(), found.inputs))


def run_apart(
    work: Callable[[], bytes], label: str, isolate: bool, timeout_seconds: float
) -> bytes:
    """The bytes of `work`, from a child unless that is not wished."""
    if not isolate:
        return work()
    load_tracers()
    return isolated(lambda: quietly(work), label, timeout_seconds)


def quietly(work: Callable[[], bytes]) -> bytes:
    """In the child: one thread, as others do not survive a fork, and no chatter of the tracer."""
    load_torch().set_num_threads(1)
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()


def _climbed(program: Program) -> bytes:
    try:
        return write_capture(climb(program))
    except CaptureError as error:
        return write_capture(error)
