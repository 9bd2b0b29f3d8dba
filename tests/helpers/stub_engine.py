"""An engine without a process: real arenas, answers as the test wants them.

It computes matrix products itself (so results are right), or does what `behavior` says for the
next task: `hang`, `refuse:CODE`, `fail:CODE`, `die`. Known answers it gives by heart, and wrong
ones while `is_lying`.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from app.agent.answers import cases
from app.agent.calibration import PRODUCT_GRAPH, SUM_GRAPH
from app.agent.settings import Settings
from app.host.arena import Arena, Slot
from app.host.spec import (
    Died,
    Done,
    EngineTask,
    Event,
    Exported,
    Failed,
    Prepared,
    Ready,
    Refused,
)
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import EngineError
from gpugoblin.graph.exact import interpret_exact
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import decode

_DTYPES: Any = tuple(sorted(DTYPES))
READY = Ready(
    "engine-0.0.0", "stub-1", "cpu", "ab" * 32, "cd" * 32, 1, "full", {}, _DTYPES, _DTYPES, _DTYPES,
    ("exact", "float32"),
)  # fmt: skip


class StubEngine:
    """Looks like `app.host.engine.Engine` to the agent."""

    def __init__(self, settings: Settings, behavior: deque[str]) -> None:
        self.inputs = Arena(settings.number("processor.input_bytes"), "input")
        self.outputs = Arena(settings.number("processor.output_bytes"), "output")
        self.ready: Ready | None = None
        self.behavior = behavior
        self.cancelled: list[int] = []
        self.frozen: list[bool] = []
        self._fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._events: deque[Event] = deque()
        self._number = 0
        self.is_lying = False
        self.proofs = 0
        self.free_places = 4
        self.compiled = b"compiled by a stub"
        self.ends_over_kernels = ""  # the code of that end
        self.prepared: list[tuple[tuple[str, ...], tuple[str, ...], bytes | None]] = []
        self._dead = False
        self.pids: tuple[int, ...] = ()

    def wait_ready(self) -> Ready:
        if self.behavior and self.behavior[0] == "die while starting":
            self.behavior.popleft()
            raise EngineError("engine_died", status=9, doing="starting", stderr="none")
        if self.behavior and self.behavior[0].startswith("start:"):
            raise EngineError("engine_start_failed", reason=self.behavior.popleft(), python="x")
        self.ready = READY
        return READY

    def submit(self, task: EngineTask) -> int:
        if self._dead:
            raise EngineError("engine_closed", request="task")
        self._number += 1
        number = self._number
        known = next(
            (each for each in cases()
             if (each.graph, each.numeric_class) == (task.graph, task.numeric_class)), None,
        )  # fmt: skip
        if known is not None:
            self.proofs += 1
            for slot, answer in zip(task.outputs, known.answers, strict=True):
                self.outputs.view(slot)[:] = bytes(slot.nbytes) if self.is_lying else answer.data
            self._tell(Done(number, 0.001, 1000))
            return number
        is_own = task.graph in (PRODUCT_GRAPH, SUM_GRAPH)
        told = "" if is_own or not self.behavior else self.behavior.popleft()
        kind, _, code = told.partition(":")
        if kind == "refuse":
            self._tell(Refused(number, code, EngineError("task_refused", reason=code)))
        elif kind == "fail":
            self._tell(Failed(number, code, 0, EngineError("task_failed", node=0, reason=code)))
        elif kind == "die":
            self.end(EngineError("engine_died", status=9, doing="dying", stderr="none"))
        elif kind != "hang":
            if not is_own:
                self._compute(task)
            self._tell(Done(number, 0.001, 1000))
        return number

    def _compute(self, task: EngineTask) -> None:
        graph = decode(task.graph)
        arrays: list[Any] = [
            np.frombuffer(bytes(self.inputs.view(slot)), spec.dtype).reshape(spec.shape)
            for slot, spec in zip(task.inputs, graph.inputs, strict=True)
        ]
        evaluate = interpret_exact if task.numeric_class == "exact" else interpret
        for slot, result in zip(task.outputs, evaluate(graph, arrays), strict=True):
            self.outputs.view(slot)[:] = result.tobytes()

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        os.eventfd_write(self._fd, 1)

    def end(self, error: EngineError) -> None:
        if not self._dead:
            self._dead = True
            self._tell(Died(error, ()))

    def prepare(
        self, refused: tuple[str, ...], alone: tuple[str, ...], compiled: Slot | None = None
    ) -> None:
        given = None if compiled is None else bytes(self.inputs.view(compiled))
        if given is not None and self._ended_over_kernels():
            return
        self.prepared.append((refused, alone, given))
        self._tell(Prepared(given == self.compiled))

    def _ended_over_kernels(self) -> bool:
        if self.ends_over_kernels:
            fields = {"status": 11, "limit_s": 20.0, "doing": "asked", "stderr": "none"}
            self.end(EngineError(self.ends_over_kernels, **fields))
        return bool(self.ends_over_kernels)

    def export(self, slot: Slot) -> None:
        if self._ended_over_kernels():
            return
        self.outputs.view(slot)[: len(self.compiled)] = self.compiled
        self._tell(Exported(len(self.compiled)))

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)
        self._tell(Failed(number, "cancelled", 0, EngineError("task_failed", node=0, reason="c")))

    def freeze(self) -> None:
        self.frozen.append(True)

    def thaw(self) -> None:
        self.frozen.append(False)

    def stop(self) -> None:
        self.end(EngineError("engine_stopped", doing="idle"))

    def fileno(self) -> int:
        return self._fd

    def next_check_s(self) -> float:
        return 1.0

    def poll(self) -> tuple[Event, ...]:
        if self._events:
            os.eventfd_read(self._fd)
        events = tuple(self._events)
        self._events.clear()
        return events

    def wait(self, timeout_s: float) -> tuple[Event, ...]:
        if self.ready is None:
            self.wait_ready()
        return self.poll()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.inputs.close()
        self.outputs.close()


class StubMaker:
    """An `EngineMaker` of stubs; `behavior` is shared by all engines that it makes."""

    def __init__(self, *behavior: str) -> None:
        self.behavior = deque(behavior)
        self.made: list[StubEngine] = []

    def __call__(self, settings: Settings, state_directory: Path) -> Any:
        engine = StubEngine(settings, self.behavior)
        self.made.append(engine)
        return engine
