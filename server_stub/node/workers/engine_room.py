"""The engine of a worker process, driven by a thread of its own.

Owns: the engine's life (started on the first task, started again when it died), its two arenas,
and the lock around them. Must not: know items, files or verdicts.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.host import spec as said
from app.host.arena import Arena
from app.host.engine import Engine
from app.host.spec import EngineTask, HostSpec
from app.sandbox.plain import installed_runtime
from app.sandbox.spec import Level, Runtime
from gpugoblin.errors import GoblinError, VerifyError
from gpugoblin.units import MIB

__all__ = ["EngineRoom", "Outcome", "RoomConfig"]

_ATTEMPTS: Final = 3
_GRAPH_ROOM_BYTES: Final = 4 * MIB


@dataclass(frozen=True, slots=True)
class RoomConfig:
    """What engine is wanted.

    Args:
        state_dir: where the sandbox stages its private runtime.
        memory_bytes: inputs, outputs and intermediates of the largest task.
        cache_bytes: inputs that may stay in the arena between tasks.
    """

    state_dir: Path
    level: Level = "full"
    threads: int = 1
    memory_bytes: int = 512 * MIB
    cache_bytes: int = 384 * MIB


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended: `done`, or the error instead."""

    done: said.Done | None
    ready: said.Ready | None
    error: GoblinError | None = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    task: EngineTask
    finished: Callable[[Outcome], None]
    attempts: int = 0


def _runtime(config: RoomConfig) -> Runtime:
    if config.level == "none":
        return installed_runtime()
    from app.sandbox.runtime import stage

    return stage(config.state_dir)


class EngineRoom:
    """Start with `start`, end with `close`. `submit` may be called from any thread."""

    def __init__(self, config: RoomConfig) -> None:
        self._config = config
        largest = max(config.memory_bytes, config.cache_bytes)
        self.lock = threading.Condition(threading.RLock())
        self.inputs = Arena(largest + _GRAPH_ROOM_BYTES, "input")
        self.outputs = Arena(largest, "output")
        self._pending: deque[_Waiting] = deque()
        self._running: dict[int, _Waiting] = {}
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopping = False
        self._engine: Engine | None = None
        self._thread = threading.Thread(target=self._run, name="engine-room", daemon=True)

    def start(self) -> None:
        """Starts the thread; the engine follows with the first task."""
        self._thread.start()

    def submit(self, task: EngineTask, finished: Callable[[Outcome], None]) -> None:
        """Queues a task. `finished` is called from the room's thread and must be quick."""
        with self.lock:
            self._pending.append(_Waiting(task, finished))
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Ends the engine and the thread. Queued tasks get no outcome."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._wake)
        self.inputs.close()
        self.outputs.close()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._feed()
                self._sleep()
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                self._listen()
        finally:
            if self._engine is not None:
                self._engine.close()

    def _sleep(self) -> None:
        waiter = select.poll()
        waiter.register(self._wake, select.POLLIN)
        timeout_ms: float | None = None
        if self._engine is not None:
            waiter.register(self._engine.fileno(), select.POLLIN)
            timeout_ms = self._engine.next_check_s() * 1000
        waiter.poll(timeout_ms)

    def _feed(self) -> None:
        while not self._stopping:
            with self.lock:
                if not self._pending:
                    return
                if self._engine is not None and self._engine.free_places == 0:
                    return
                waiting = self._pending.popleft()
            try:
                engine = self._engine or self._start()
            except GoblinError as error:
                self._again([waiting], error, None)
                continue
            try:
                with self.lock:
                    number = engine.submit(waiting.task)
            except GoblinError as error:
                if error.code == "engine_closed":  # it has just died: the next poll says so
                    with self.lock:
                        self._pending.appendleft(waiting)
                    return
                waiting.finished(Outcome(None, None, error))
                continue
            self._running[number] = waiting

    def _again(self, lost: list[_Waiting], error: GoblinError, ready: said.Ready | None) -> None:
        """Queues tasks in front once more; the first is given up after a few attempts."""
        if lost:
            lost[0] = replace(lost[0], attempts=lost[0].attempts + 1)
            if lost[0].attempts >= _ATTEMPTS:
                lost.pop(0).finished(Outcome(None, ready, error))
        with self.lock:
            self._pending.extendleft(reversed(lost))

    def _start(self) -> Engine:
        config = self._config
        spec = HostSpec(
            runtime=_runtime(config),
            input_bytes=self.inputs.size_bytes,
            output_bytes=self.outputs.size_bytes,
            threads=config.threads,
            memory_bytes=config.memory_bytes,
            level=config.level,
        )
        engine = Engine.start(spec, arenas=(self.inputs, self.outputs))
        try:
            engine.wait_ready()
        except BaseException:
            engine.close()
            raise
        self._engine = engine
        return engine

    def _listen(self) -> None:
        engine = self._engine
        if engine is None:
            return
        with self.lock:
            events = engine.poll()
        for event in events:
            if isinstance(event, said.Done):
                self._running.pop(event.task).finished(Outcome(event, engine.ready))
            elif isinstance(event, (said.Refused, said.Failed)):
                self._running.pop(event.task).finished(Outcome(None, engine.ready, event.error))
            elif isinstance(event, said.Died):
                self._bury(engine, event)

    def _bury(self, engine: Engine, event: said.Died) -> None:
        """Only the task that was running can have ended the engine; the others just go again."""
        self._engine = None
        engine.close()
        lost = [self._running.pop(number) for number in event.lost if number in self._running]
        self._again(lost, event.error, engine.ready)

    def require(self, inputs_bytes: int, outputs_bytes: int) -> None:
        """Raises VerifyError `item_too_large` for what no empty arena could hold."""
        limit = self.outputs.size_bytes
        if inputs_bytes > limit or outputs_bytes > limit:
            raise VerifyError(
                "item_too_large", needed_bytes=inputs_bytes + outputs_bytes, limit_bytes=limit
            )
