"""The backends that the operator suite runs on: a name, and how to evaluate a graph there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpugoblin.catalog.spec import Array
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph

__all__ = ["BACKENDS", "Backend"]


@dataclass(frozen=True, slots=True)
class Backend:
    """Args:
    evaluate: the outputs of a graph on inputs.
    operators: names of the operators that it has; None for all.
    """

    name: str
    evaluate: Callable[[Graph, Sequence[Array]], Sequence[Array]]
    operators: frozenset[str] | None = None


BACKENDS: list[Backend] = [Backend("reference", interpret)]
