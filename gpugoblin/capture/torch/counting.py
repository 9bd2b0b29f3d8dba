"""How many steps a loop can make at most, where its test says so.

torch's `while_loop` names no bound. Most programs count, though: `(i < 50) & ...` with i + 1 in the
body and a number at first. Then the bound is known, and with it what the loop costs, and that it
has a gradient. Owns: reading that off the two programs. Must not: guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.program import Graph, Node
from gpugoblin.catalog.spec import DTYPES

__all__ = ["most_steps"]

_TURNED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True, slots=True)
class _Made:
    """One scalar function of values of a program."""

    function: str
    operands: tuple[int, ...]


class _Reader:
    """What the values of a program are."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._first = len(graph.inputs)
        self._nodes: dict[int, Node] = dict(graph.numbered_nodes())

    def made(self, value: int) -> _Made | None:
        """The function that makes a value; None for another thing, or for several functions."""
        node = self._nodes.get(value)
        tree = node.attrs.get("tree") if node is not None else None
        if node is None or not isinstance(tree, Formula):
            return None
        *inputs, last = tree.nodes
        if any(one.function != "input" for one in inputs):
            return None
        operands = tuple(node.inputs[inputs[place].value] for place in last.operands)
        return _Made(last.function, operands)

    def number(self, value: int) -> int | None:
        """The number that an integer scalar constant is."""
        place = value - self._first
        if not 0 <= place < len(self.graph.constants):
            return None
        constant = self.graph.constants[place]
        if constant.spec.shape or constant.spec.dtype not in ("int32", "int64"):
            return None
        return int(constant.array().item())

    def needed(self, value: int) -> list[int]:
        """The values that must all be true for this one to be."""
        made = self.made(value)
        if made is None or made.function != "and":
            return [value]
        return [one for operand in made.operands for one in self.needed(operand)]


def most_steps(
    test: Graph, body: Graph, starts: Sequence[int | None], otherwise: int
) -> int:  # fmt: skip
    """A number of steps after which the test fails for sure, or `otherwise`.

    Args:
        test, body: of a `while_loop`.
        starts: for each carried value the number that it is at first, where it is known.
    """
    asking, doing = _Reader(test), _Reader(body)
    found = [otherwise]
    for value in asking.needed(test.outputs[0]):
        made = asking.made(value)
        if made is None or made.function not in _TURNED:
            continue
        left, right = made.operands
        for counter, end, function in (
            (left, asking.number(right), made.function),
            (right, asking.number(left), _TURNED[made.function]),
        ):
            if end is None or counter >= len(starts):
                continue
            start, step = starts[counter], _step(doing, counter)
            if start is not None and step is not None:
                most = _most(function, start, end, step, body.inputs[counter].dtype)
                found.extend([] if most is None else [most])
    return min(found)


def _step(doing: _Reader, counter: int) -> int | None:
    """What a body adds to a carried value."""
    made = doing.made(doing.graph.outputs[counter])
    if made is None or counter not in made.operands or len(made.operands) != 2:
        return None
    left, right = made.operands
    number = doing.number(right if left == counter else left)
    if made.function == "add":
        return number
    return -number if made.function == "sub" and number is not None and left == counter else None


def _most(function: str, start: int, end: int, step: int, dtype: str) -> int | None:
    """Steps until start + n step is not less (or not greater, ...) than end; None: never, or only
    by wrapping."""
    if function in ("gt", "ge"):
        start, end, step = -start, -end, -step
    last = end - 1 if function in ("lt", "gt") else end
    if start > last:
        return 0
    if step <= 0 or last + step > np.iinfo(DTYPES[dtype]).max:
        return None
    return (last - start) // step + 1
