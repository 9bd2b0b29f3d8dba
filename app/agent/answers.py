"""Tasks with known answers, which every engine is asked before a lab's and now and then after.

Owns: the shipped cases and the judgement of a result. Must not: run anything, or know a graph: the
file is made by `scripts/known_answers.py` from the reference interpreter, and so are its bounds.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

__all__ = ["FILE", "Answer", "Case", "cases", "wrong_element"]

FILE: Final = Path(__file__).with_name("answers.jsonl")

_LETTERS: Final = {
    "float32": "f",
    "float16": "e",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint8": "B",
    "bool": "B",
}
"""How `struct` names a dtype."""


class Answer(Struct, frozen=True, array_like=True):
    """One output: its bytes, little-endian in C order.

    `limits`: one float64 an element, how far an honest result may lie from it; empty where it must
    be equal.
    """

    dtype: str
    data: bytes
    limits: bytes


class Case(Struct, frozen=True, array_like=True):
    """A task and its answers. `graph`: canonical bytes."""

    name: str
    numeric_class: Literal["exact", "float32", "float16", "bfloat16"]
    graph: bytes
    inputs: tuple[bytes, ...]
    answers: tuple[Answer, ...]


@cache
def cases() -> tuple[Case, ...]:
    """All of them; the first needs a product, a chain and a sum."""
    lines = FILE.read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=Case) for line in lines)


def wrong_element(answer: Answer, data: bytes) -> int | None:
    """The first element of a result that no honest engine gives; None where all are right.

    NaN equals NaN. Infinite limits admit everything.
    """
    if data == answer.data:
        return None
    letter = _LETTERS[answer.dtype]
    count = len(answer.data) // struct.calcsize(letter)
    if len(data) != len(answer.data):
        return 0
    wanted = struct.unpack(f"<{count}{letter}", answer.data)
    found = struct.unpack(f"<{count}{letter}", data)
    limits = struct.unpack(f"<{count}d", answer.limits) if answer.limits else (0.0,) * count
    for place, (value, right, limit) in enumerate(zip(found, wanted, limits, strict=True)):
        if value == right or limit == math.inf or (value != value and right != right):
            continue
        if not abs(value - right) <= limit:
            return place
    return None
