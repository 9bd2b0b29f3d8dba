"""One thread that does one thing after another, beside the loop.

Owns: the thread. Must not: be waited for when the program ends: a lane may hang in a network read,
so its thread is a daemon, and what it still wanted to say is dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["Lane"]

T = TypeVar("T")


class Lane:
    """A named thread with a queue, started at the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Runs `function` on this lane after what was asked before; its result or its exception.

        After `end` the future is cancelled at once.
        """
        future: Future[T] = Future()
        if self._is_closed:
            future.cancel()
            return future
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except BaseException as error:  # the caller is on another thread and gets it there
                future.set_exception(error)

        self._queue.put(work)
        return future

    def end(self, last: Callable[[], None] | None = None) -> None:
        """Takes nothing more; the thread ends after what was asked before, and after `last`.

        Where the lane never ran, `last` is not called.
        """
        if self._is_closed:
            return
        if last is not None and self._thread is not None:
            self.call(last)
        self._is_closed = True
        self._queue.put(None)

    def join(self, timeout_s: float) -> bool:
        """Waits for the end of the thread; False when it still runs."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if work is None:
                return
            work()
