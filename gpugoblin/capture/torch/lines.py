"""The researcher's line behind a node of a trace, or behind an error.

Owns: reading torch's records of where things were called. Frames of torch and of this package are
passed over, as they say nothing about the program.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import traceback
from collections.abc import Iterator
from typing import Any, Final

from gpugoblin.capture.caller import NOWHERE, Place
from gpugoblin.capture.torch.library import load_torch

__all__ = ["every_frame", "place_of_error", "place_of_node"]

_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')
_FRAMES: Final = 4
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@functools.cache
def _passed_over(file: str) -> bool:
    torch_folder = os.path.dirname(os.path.abspath(load_torch().__file__))
    made_up = file.startswith("<") and not file.startswith("<ipython")
    return made_up or file.startswith((torch_folder + os.sep, _OURS + os.sep))


def _last(frames: list[tuple[str, int]]) -> Place:
    for file, line in reversed(frames):
        if not _passed_over(file):
            return Place(file, line)
    return NOWHERE


def place_of_node(node: Any) -> Place:
    """Where the operator of a node was called in the program."""
    trace = str(node.meta.get("stack_trace") or "")
    return _last([(file, int(line)) for file, line in _FRAME.findall(trace)])


def place_of_error(error: BaseException) -> Place:
    """The innermost line of the program that an error passed through, here or in its causes."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(current.__traceback__)]
        found = _last(frames)
        if found is NOWHERE:
            found = _last([(file, int(n)) for file, n in _FRAME.findall(str(current))])
        if found is not NOWHERE:
            return found
        current = current.__cause__ or current.__context__
    # torch's own layers, which no line of the program calls while a trace runs: who asked for it.
    return _last([(frame.filename, frame.lineno or 0) for frame in traceback.extract_stack()])


@contextlib.contextmanager
def every_frame() -> Iterator[None]:
    """While it lasts, torch's tracers write down all frames of a call and not only those named
    `forward`: a line inside a plain function is then found."""
    tracer = load_torch().fx.proxy.TracerBase
    kept = tracer._filter_traceback_frames

    def frames_of_program(self: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
        own = [frame for frame in frames if not _passed_over(frame.filename)]
        return traceback.StackSummary.from_list(own[-_FRAMES:])

    tracer._filter_traceback_frames = frames_of_program
    try:
        yield
    finally:
        tracer._filter_traceback_frames = kept
