"""Where in the researcher's own program something happens.

Owns: finding the nearest frame outside this package, and writing it for people. Must not: run or
keep any of that program; a place is a file name and a line number.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = ["NOWHERE", "Place", "caller"]

_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_INSIDE: Final = (_OURS, os.path.join(os.path.dirname(os.path.abspath(np.__file__)), ""))
"""Frames of this package, and of NumPy's functions that call back into it."""
_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a program. Its text is read only when it is shown."""

    file: str
    line: int

    @property
    def short(self) -> str:
        """`analysis.py:41`; for a notebook `cell line 3`."""
        if not self.file:
            return "<unknown>"
        if self.file.startswith("<") or f"{os.sep}ipykernel_" in self.file:
            return f"cell line {self.line}"
        relative = os.path.relpath(self.file) if self.file.startswith(os.getcwd()) else self.file
        return f"{relative}:{self.line}"

    def __str__(self) -> str:
        """`analysis.py:41 "c = a @ b"`."""
        text = linecache.getline(self.file, self.line).strip() if self.file else ""
        if not text:
            return self.short
        if len(text) > _SHOWN_CHARACTERS:
            text = text[: _SHOWN_CHARACTERS - 3] + "..."
        return f'{self.short} "{text}"'


NOWHERE: Final = Place("", 0)


def caller() -> Place:
    """The nearest line on the stack that is not part of this package (or of NumPy)."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_INSIDE):
            return Place(file, frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return NOWHERE
