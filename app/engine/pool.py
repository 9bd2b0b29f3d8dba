"""The engine's threads: numbered blocks of one step, taken from a shared counter.

Owns: the worker threads. Must not: decide how a step is cut. Blocks are cut without regard to the
number of threads, so the bits of a result do not depend on it; only their order in time does.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Pool"]


@dataclass(slots=True)
class _Batch:
    work: Callable[[int], None]
    count: int
    next: Callable[[], int]
    finished: queue.SimpleQueue[None] = field(default_factory=queue.SimpleQueue)
    errors: list[tuple[int, BaseException]] = field(default_factory=list)

    def drain(self) -> None:
        while not self.errors and (block := self.next()) < self.count:
            try:
                self.work(block)
            except BaseException as error:  # handed to the thread that asked for the batch
                self.errors.append((block, error))


class Pool:
    """`threads` threads in all; the caller is one of them."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._queue: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._workers = [
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True)
            for number in range(1, threads)
        ]
        for worker in self._workers:
            worker.start()

    def _work(self) -> None:
        # NumPy's error state belongs to a thread; NaN and infinity are ordinary values here.
        np.seterr(all="ignore")
        while (batch := self._queue.get()) is not None:
            batch.drain()
            batch.finished.put(None)

    def run(self, count: int, work: Callable[[int], None]) -> None:
        """Calls `work(block)` for every block below `count`; raises the first block's error."""
        helpers = min(count - 1, len(self._workers))
        if helpers <= 0:
            for block in range(count):
                work(block)
            return
        batch = _Batch(work, count, itertools.count().__next__)
        for _ in range(helpers):
            self._queue.put(batch)
        batch.drain()
        for _ in range(helpers):
            batch.finished.get()
        if batch.errors:
            raise min(batch.errors, key=lambda entry: entry[0])[1]

    def close(self) -> None:
        """Ends the workers. The engine itself never does: its process ends."""
        for _ in self._workers:
            self._queue.put(None)
        for worker in self._workers:
            worker.join()
