"""What a running task is given beside its tensors: threads, cancel and progress.

Owns: the context of one task and the errors that a kernel may raise. Must not: know a message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.engine.pool import Pool
from app.engine.protocol import FailureCode

__all__ = ["Cancelled", "Context", "KernelError"]


class KernelError(Exception):
    """A kernel met values that it may not compute on. Raised and caught inside the engine.

    Args:
        values: integers that belong to the code (`protocol.Failed`).
    """

    def __init__(self, code: FailureCode, values: tuple[int, ...] = ()) -> None:
        super().__init__(code)
        self.code: FailureCode = code
        self.values = values


class Cancelled(Exception):
    """The parent does not want the running task any more."""


class Context:
    """One run of one program.

    Args:
        wanted: False once the task was cancelled; asked between blocks.
        report: called with the share that is done, from any thread; cheap, may drop calls.
    """

    def __init__(
        self,
        pool: Pool,
        wanted: Callable[[], bool] = lambda: True,
        report: Callable[[float], None] = lambda fraction: None,
    ) -> None:
        self.pool = pool
        self._wanted = wanted
        self._report = report
        self._lock = threading.Lock()
        self._done = 0.0
        self._step_share = 0.0

    def inside(self) -> Context:
        """A context for the steps of a body: it can be cancelled, and counts no progress."""
        return Context(self.pool, self._wanted)

    def begin_step(self, share: float) -> None:
        """The next step is `share` of the whole task (between 0 and 1)."""
        self._step_share = share
        self.check()

    def check(self) -> None:
        """Raises Cancelled when the task is not wanted any more."""
        if not self._wanted():
            raise Cancelled

    def blocks(self, count: int, work: Callable[[int], None]) -> None:
        """Runs the blocks of the present step on all threads; each counts as progress."""
        share = self._step_share / max(1, count)

        def one(block: int) -> None:
            self.check()
            work(block)
            with self._lock:
                self._done += share
                done = self._done
            self._report(min(1.0, done))

        self.pool.run(count, one)
