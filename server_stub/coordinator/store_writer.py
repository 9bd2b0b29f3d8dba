"""What handlers and shells are written against, and the thread that writes for one database.

Owns: `Transaction`, `Store`, the queue of pieces of work and their grouping. Must not: know a
database, or what the facts mean.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

from gpugoblin.errors import CoordinatorError

__all__ = ["MAX_GROUP", "Piece", "Row", "Store", "Transaction", "Value", "Writer"]

R = TypeVar("R")
Value = str | bytes | int | float | None
Row = tuple[Any, ...]

MAX_GROUP: Final = 256
"""Pieces of work per commit: enough to hide the sync, few enough to bound the wait."""


class Transaction(Protocol):
    """What a handler may do with the facts. Placeholders in SQL are question marks.

    The SQL is what SQLite and PostgreSQL both understand. A number that may be NULL is not ordered
    by; a parameter that is only compared with NULL is cast.
    """

    def execute(self, sql: str, *values: Value) -> int:
        """Runs one statement; the number of rows that it changed."""
        ...

    def row(self, sql: str, *values: Value) -> Row | None:
        """The first row, or None."""
        ...

    def rows(self, sql: str, *values: Value) -> list[Row]:
        """All rows."""
        ...

    def nested(self) -> contextlib.AbstractContextManager[None]:
        """A part that is undone alone when it raises."""
        ...


class Store(Protocol):
    """Runs work in transactions."""

    def submit(self, work: Callable[[Transaction], R]) -> Future[R]:
        """Runs `work` soon, in order. The future is done once the result is on disk.

        It holds what `work` raised, or a CoordinatorError `coordinator_database_*`,
        `coordinator_outcome_unknown` or `coordinator_stopping`. Work may be run again from the
        start when the database undid it, so it touches nothing but the transaction.
        """
        ...

    def close(self) -> None:
        """Finishes what was submitted and refuses the rest."""
        ...


class Piece:
    """One submitted piece of work, and what became of it."""

    def __init__(self, work: Callable[[Transaction], Any], future: Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None

    def run(
        self,
        transaction: Transaction,
        own: tuple[type[Exception], ...],
        database: type[Exception],
    ) -> None:
        """Runs it inside a savepoint. `own` are the database's errors that are a defect of this
        piece alone; other errors of the `database` are raised."""
        self.result, self.error = None, None
        try:
            with transaction.nested():
                self.result = self.work(transaction)
        except own as error:
            self.error = error
        except database:
            raise
        except Exception as error:  # the submitter gets it; this thread serves everybody
            self.error = error

    def settle(self) -> None:
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class Writer:
    """A thread that runs pieces in groups: `commit` runs and settles a group, `end` lets go."""

    def __init__(self, commit: Callable[[list[Piece]], None], end: Callable[[], None]) -> None:
        self._commit = commit
        self._end = end
        self._waiting: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._write, name="coordinator-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Transaction], R]) -> Future[R]:
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._closed:
                future.set_exception(CoordinatorError("coordinator_stopping"))
            else:
                self._waiting.put(Piece(work, future))
        return future

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._waiting.put(None)
        self._thread.join()
        self._end()

    def _write(self) -> None:
        going = True
        while going:
            group: list[Piece] = []
            piece = self._waiting.get()
            while piece is not None:
                group.append(piece)
                if len(group) == MAX_GROUP:
                    break
                try:
                    piece = self._waiting.get_nowait()
                except queue.Empty:
                    break
            going = piece is not None
            if group:
                self._commit(group)
