"""The border between the state machine and whoever computes.

Owns: the `Executor` protocol, what an executor tells about itself, and the feed of its events.
Executors pull: `submit` says that a job has work, the executor takes leases from the state machine
when it has room, and the state machine alone decides what becomes of a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["EventFeed", "Executor", "ExecutorEvent", "Fleet"]

EventKind = Literal["leased", "finished", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What an executor has, all engines together.

    Args:
        engines: how many compute at the same time.
        memory_bytes, slot_bytes: what a task and its largest tensor may take on the engines that
            a plan is made for.
        flops_per_s: measured rates, summed; 0 where nothing is known. bytes_per_s: of the links
            over which tasks come and go, summed.
        dtypes: what all of these engines have (`gpugoblin.graph.dtypes.Dtypes.mask`).
    """

    engines: int
    memory_bytes: int
    slot_bytes: int
    threads: int
    flops_per_s: float
    bytes_per_s: float
    dtypes: int


@dataclass(frozen=True, slots=True)
class ExecutorEvent:
    """One thing that happened to a lease of this executor."""

    kind: EventKind
    lease: str


class Executor(Protocol):
    """Computes tasks of jobs that are submitted to it."""

    @property
    def name(self) -> str: ...

    async def capabilities(self, needs: int = 0) -> Fleet:
        """What is there now, of engines that have the dtypes that a graph needs
        (`gpugoblin.graph.dtypes.Dtypes.mask`)."""
        ...

    def submit(self, job: str) -> None:
        """The job has ready tasks. Returns at once."""
        ...

    def cancel(self, lease: str) -> None:
        """The result of a lease is not wanted; acknowledged by an event `cancelled`."""
        ...

    def events(self) -> AsyncIterator[ExecutorEvent]:
        """What happens from now on, until the executor stops."""
        ...


class EventFeed:
    """Hands events to any number of readers. A reader that falls far behind loses the oldest."""

    MAX_WAITING = 4096

    def __init__(self) -> None:
        self._readers: list[asyncio.Queue[ExecutorEvent | None]] = []
        self._closed = False

    def put(self, kind: EventKind, lease: str) -> None:
        """Tells every reader."""
        for queue in self._readers:
            if queue.qsize() >= self.MAX_WAITING:
                queue.get_nowait()
            queue.put_nowait(ExecutorEvent(kind, lease))

    def read(self) -> AsyncIterator[ExecutorEvent]:
        """A new reader; it sees what is put after this call."""
        queue: asyncio.Queue[ExecutorEvent | None] = asyncio.Queue()
        if self._closed:
            queue.put_nowait(None)
        else:
            self._readers.append(queue)
        return self._drain(queue)

    async def _drain(
        self, queue: asyncio.Queue[ExecutorEvent | None]
    ) -> AsyncIterator[ExecutorEvent]:
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            if queue in self._readers:
                self._readers.remove(queue)

    def close(self) -> None:
        """Ends every reader."""
        self._closed = True
        for queue in self._readers:
            queue.put_nowait(None)
