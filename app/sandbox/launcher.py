"""The one thread that starts engines.

Owns: a thread that lives as long as any engine that it started. bubblewrap asks the kernel to end
the engine when its parent ends, and by *parent* the kernel means the thread, not the process: an
engine started from a pool's worker would die when that worker retires. Must not: know what it
starts.

Niceness belongs to a thread and is inherited, so this one is nice, and every engine from its first
instruction on.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from app.sandbox.limits import NICE

__all__ = ["Launcher"]

Started = TypeVar("Started")
_Job = Callable[[], None]


class _Order(Generic[Started]):
    """One thing to be started, and its answer."""

    def __init__(self, start: Callable[[], Started]) -> None:
        self.start = start
        self.answer: Future[Started] = Future()

    def carry_out(self) -> None:
        try:
            self.answer.set_result(self.start())
        except BaseException as error:  # handed to whoever ordered it, who raises it
            self.answer.set_exception(error)


class Launcher:
    """Starts things from a thread of its own, which ends with the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive = 0
        self._orders: queue.SimpleQueue[_Job | None] | None = None

    @property
    def running(self) -> bool:
        """Is the thread there?"""
        with self._lock:
            return self._orders is not None

    def start(self, start: Callable[[], Started]) -> Started:
        """Runs `start` on the thread; then `release` must be called once, when its process is gone.

        Raises:
            Exception: whatever `start` raised, and then nothing has to be released.
        """
        order = _Order(start)
        with self._lock:
            self._alive += 1
            if self._orders is None:
                self._orders = queue.SimpleQueue()
                threading.Thread(
                    target=_work, args=(self._orders,), name="sandbox-launcher", daemon=True
                ).start()
            self._orders.put(order.carry_out)
        try:
            return order.answer.result()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """A started process is gone."""
        with self._lock:
            self._alive -= 1
            if self._alive == 0 and self._orders is not None:
                self._orders.put(None)
                self._orders = None


def _work(orders: queue.SimpleQueue[_Job | None]) -> None:
    own = threading.get_native_id()
    # A program that is nicer already stays so; only root might become less nice.
    os.setpriority(os.PRIO_PROCESS, own, max(NICE, os.getpriority(os.PRIO_PROCESS, own)))
    while (job := orders.get()) is not None:
        job()
