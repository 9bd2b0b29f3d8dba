"""The backends that the operator suite runs on: a name, and how to evaluate a graph there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpugoblin.catalog.spec import Array
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from tests.helpers.engines import RealEngine

__all__ = ["BACKENDS", "CPU", "Backend"]


@dataclass(frozen=True, slots=True)
class Backend:
    """Args:
    evaluate: the outputs of a graph on inputs.
    operators: names of the operators that it has; None for all.
    """

    name: str
    evaluate: Callable[[Graph, Sequence[Array]], Sequence[Array]]
    operators: frozenset[str] | None = None


class CpuChild:
    """The processor backend in a real child process, started by `conftest.py`."""

    def __init__(self) -> None:
        self._engine: RealEngine | None = None

    def start(self) -> None:
        self._engine = RealEngine()
        self._engine.engine.wait_ready()

    def evaluate(self, graph: Graph, inputs: Sequence[Array]) -> Sequence[Array]:
        if self._engine is None:
            raise RuntimeError("start the engine first")
        return self._engine.run(graph, inputs)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


CPU = CpuChild()

BACKENDS: list[Backend] = [Backend("reference", interpret), Backend("cpu", CPU.evaluate)]
