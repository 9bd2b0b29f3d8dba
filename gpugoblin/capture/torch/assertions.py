"""Branches of a program that only raise: checks of its data, which a trace may leave out.

`if (variance < 0).any(): raise ValueError` chooses by data, and a trace has none. The program has
passed the check with the very arguments that it is traced with. What proves that it is a check:
with the choice turned round, the program raises at a `raise` or `assert` that follows the choice
in the same function. Any other choice is left to the tracer, which refuses it.

Owns: finding these choices in eager runs, and answering them in a trace. Must not: answer a choice
whose other side does anything but raise.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from gpugoblin.capture.torch.library import load_torch

__all__ = ["Choices", "answered", "checks_of"]

_MOST_CHOICES: Final = 32
_LINES_TO_RAISE: Final = 12
_BETWEEN: Final = (
    *("torch/overrides.py", "torch/_tensor.py", "_contextlib.py", "non_strict_utils.py"),
    *("torch/_export/", "torch/fx/experimental/", "torch/_dynamo/", "torch/_subclasses/"),
    "gpugoblin/capture/torch/assertions.py",
)
Key = tuple[str, int, int]
"""File, line, and how often that line was passed before."""


@dataclass(slots=True)
class Choices:
    """What bools of tensors were, by where the program asked for them."""

    taken: dict[Key, bool] = field(default_factory=dict)


def _asking(frame: FrameType | None) -> tuple[str, int]:
    while frame is not None and any(part in frame.f_code.co_filename for part in _BETWEEN):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


@contextlib.contextmanager
def _asked(answer: Callable[[Key, Callable[[], bool]], bool]) -> Iterator[None]:
    """While it lasts, every bool of a tensor, and `item` of a tensor of bools, is `answer`'s. A
    mode of torch would miss those inside of torch's own functions."""
    torch = load_torch()
    passed: Counter[tuple[str, int]] = Counter()

    def put(name: str) -> Any:
        kept = getattr(torch.Tensor, name)

        def method(tensor: Any) -> Any:
            if name == "item" and tensor.dtype is not torch.bool:
                return kept(tensor)
            place = _asking(sys._getframe(1))
            passed[place] += 1
            return answer((*place, passed[place] - 1), lambda: bool(kept(tensor)))

        setattr(torch.Tensor, name, method)
        return kept

    originals = {name: put(name) for name in ("__bool__", "is_nonzero", "item")}
    try:
        yield
    finally:
        for name, kept in originals.items():
            if name in vars(torch._C.TensorBase):
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, kept)


def checks_of(run: Callable[[], object]) -> Choices:
    """The choices of an eager run whose other side raises.

    Args:
        run: the program on a copy of its arguments; called once for each choice, and once more.
    """
    seen: dict[Key, bool] = {}

    def recorded(key: Key, real: Callable[[], bool]) -> bool:
        seen[key] = real()
        return seen[key]

    with _asked(recorded):
        run()
    proven = Choices()
    for key, value in list(seen.items())[:_MOST_CHOICES]:
        if _raises_when_turned(run, key):
            proven.taken[key] = value
    return proven


def _raises_when_turned(run: Callable[[], object], turned: Key) -> bool:
    def answer(key: Key, real: Callable[[], bool]) -> bool:
        return real() != (key == turned)

    try:
        with _asked(answer):
            run()
    except Exception as error:  # the program's own, of any kind
        innermost = traceback.extract_tb(error.__traceback__)[-1]
        line = innermost.lineno or 0
        text = linecache.getline(innermost.filename, line)
        near = 0 <= line - turned[1] <= _LINES_TO_RAISE
        said = text.strip().startswith(("raise", "assert")) or ": raise " in text
        return innermost.filename == turned[0] and near and said
    return False


@contextlib.contextmanager
def answered(choices: Choices) -> Iterator[None]:
    """While it lasts, a trace that asks for a proven choice is told what the eager run chose."""
    if not choices.taken:
        yield
        return

    def answer(key: Key, real: Callable[[], bool]) -> bool:
        return choices.taken[key] if key in choices.taken else real()

    with _asked(answer):
        yield
