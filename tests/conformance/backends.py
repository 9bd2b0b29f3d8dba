"""The backends that the operator suite runs on: a name, and how to evaluate a graph there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

import pytest

from app.agent.card_start import start_card_engine
from app.agent.fleet import start_engine
from app.agent.settings import read_settings
from app.host.cards import find_cards
from app.host.engine import Engine
from gpugoblin.catalog.spec import Array, Operator, Sample
from gpugoblin.errors import EngineError, GoblinError
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.units import GIB, MIB
from tests.helpers.cards import missing_card, missing_cuda
from tests.helpers.engines import RealEngine

__all__ = ["BACKENDS", "CHILDREN", "CPU", "CUDA", "NO_CUDA", "VULKAN", "Backend", "Child", "kept"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backend:
    """Args:
    evaluate: the outputs of a graph on inputs.
    serves: whether it has all that a graph needs.
    """

    name: str
    evaluate: Callable[[Graph, Sequence[Array]], Sequence[Array]]
    serves: Callable[[Graph], bool] = lambda graph: True


def kept(make: Callable[[Operator, Sample], T]) -> Callable[[Operator, Sample], T]:
    """What `make` gives, made once for the tests of one sample that stand together."""
    last: list[tuple[Operator, Sample, T]] = []

    def found(operator: Operator, sample: Sample) -> T:
        if not last or last[0][0] is not operator or last[0][1] is not sample:
            last[:] = [(operator, sample, make(operator, sample))]
        return last[0][2]

    return found


class Child:
    """A backend in a real child process, started by `conftest.py`.

    Args:
        absent: why it is not there; asked once, empty where it is.
    """

    def __init__(
        self,
        backend: str,
        absent: Callable[[], str] = lambda: "",
        environment: dict[str, str] | None = None,
        memory_bytes: int = 64 * MIB,
    ) -> None:
        self._memory_bytes = memory_bytes
        self._backend = backend
        self._absent = absent
        self._environment = environment
        self._engine: RealEngine | None = None
        self._failure: GoblinError | None = None
        self._folder: Path | None = None
        self.reason = ""

    def start(self) -> None:
        """Starts the engine where its card is.

        What goes wrong is raised by `evaluate`: the tests of other backends do not depend on it.
        """
        self.reason = self._absent()
        if not self.reason:
            try:
                self._engine = self._started()
            except GoblinError as cause:
                self._failure = cause

    def _started(self) -> RealEngine:
        walled = self._walled() if os.environ.get("GPUGOBLIN_WALLS") else None
        engine = RealEngine(
            memory_bytes=self._memory_bytes,
            backend=self._backend,
            environment=self._environment,
            engine=walled,
        )
        try:
            engine.engine.wait_ready()
        except GoblinError:
            engine.close()
            raise
        return engine

    def _walled(self) -> Engine:
        """As an agent starts it: on the first card that is one, else on Mesa's software."""
        self._folder = Path(mkdtemp(prefix="conformance-"))
        self._folder.chmod(0o711)
        settings = read_settings(None)
        if self._backend == "cpu":
            return start_engine(settings, self._folder)
        if self._backend == "vulkan":
            return start_card_engine(settings, self._folder, find_cards().cards[0])
        raise EngineError("card_missing", backend=self._backend, reason="no walls are made for it")

    def evaluate(
        self, graph: Graph, inputs: Sequence[Array], numeric_class: str = "float32"
    ) -> Sequence[Array]:
        if self._failure is not None:
            raise self._failure
        if self._engine is None:
            reason = self.reason or "the engine was not started"
            if os.environ.get("GPUGOBLIN_CONFORMANCE") == self._backend:
                pytest.fail(reason)
            pytest.skip(reason)
        return self._engine.run(graph, inputs, numeric_class)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None


CPU = Child("cpu")
VULKAN = Child("vulkan", missing_card, {}, GIB)
"""The first card, which without one is Mesa's software."""


CUDA = Child("cuda", missing_cuda, {}, 16 * GIB)
"""The first card of NVIDIA; the context of CUDA alone takes a good part of a GiB."""

CHILDREN = (CPU, VULKAN, CUDA)


def _served(child: Child, graph: Graph) -> bool:
    """Has every operator of the graph, or what it is made of, a kernel on cards?"""
    if child.reason:  # `evaluate` says it
        return True
    from app.engine.backends.card.layout import require_served

    try:
        require_served(graph)
    except EngineError:
        return False
    return True


NO_CUDA = "" if os.environ.get("GPUGOBLIN_CONFORMANCE") == "cuda" else missing_cuda()
"""Why there are no tests of CUDA; empty where there are. One test says it, not two thousand."""

BACKENDS: list[Backend] = [
    Backend("reference", interpret),
    Backend("cpu", CPU.evaluate),
    Backend("vulkan", VULKAN.evaluate, partial(_served, VULKAN)),
    *([] if NO_CUDA else [Backend("cuda", CUDA.evaluate, partial(_served, CUDA))]),
]
