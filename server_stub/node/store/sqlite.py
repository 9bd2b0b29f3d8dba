"""SQLite behind the `Store` protocol: WAL, `synchronous=FULL`, one writer, group commit.

Owns: connections, the writer and its queue. Transactions that wait while another commits share the
next commit (up to 256), because the disk's sync is what a small transaction costs. When one of a
group fails, the group is rolled back and each is run again alone, so that no transaction sees
another's failure. Must not: know a table beside `meta`.

Transactions run in the writer's thread. Those that are declared `brief` run in the event loop's
thread, and only their commit in the writer's: each statement lets go of the interpreter lock, and
a dozen statements that take turns with a busy loop cost more than they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from gpugoblin.errors import NodeError
from server_stub.node.store import migrations
from server_stub.node.store.protocol import Row, Tx, Value

__all__ = ["MAX_GROUP", "SqliteStore", "SqliteTx", "connect", "migrate", "named", "transaction"]

MAX_GROUP: Final = 256
BRIEF_S: Final = 0.008
"""How long brief transactions of one group may keep the event loop from other work."""
DATABASE_FAILED: Final = "database_failed"
BUSY_S: Final = 10.0
"""How long a transaction waits while another process holds the database."""
READERS: Final = 2

T = TypeVar("T")


class SqliteTx:
    """`Tx` over one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._ends: dict[Callable[[Tx, list[Any]], None], list[Any]] = {}

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def one(self, statement: str, parameters: Sequence[Value] = ()) -> Row | None:
        found = self._execute(statement, parameters).fetchall()
        return found[0] if found else None

    def change(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        return self._execute(statement, parameters).rowcount

    def at_end(self, body: Callable[[Tx, list[T]], None], item: T) -> None:
        self._ends.setdefault(body, []).append(item)

    def end(self) -> None:
        """Runs what is left for the end of the transaction; its owner calls it once."""
        for body, items in self._ends.items():
            body(self, items)


def connect(
    path: Path | str, *, read_only: bool = False, busy_s: float = BUSY_S
) -> sqlite3.Connection:
    """A connection with the node's settings. `path` may be `:memory:`.

    Args:
        busy_s: how long a statement waits while another process holds the database.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, cached_statements=512, check_same_thread=False, timeout=busy_s
    )
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma wal_autocheckpoint = 4000")
        connection.execute("pragma cache_size = -32768")
        connection.execute("pragma temp_store = memory")
        if read_only:
            connection.execute("pragma query_only = on")
    except sqlite3.Error:  # a file that is no database shows here
        connection.close()
        raise
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Makes the tables of a new database, or checks that an old one is of this version.

    Raises:
        NodeError: `database_older` (`migrations.upgrade` helps), `database_newer`,
            `database_version`.
    """
    version = migrations.version_of(connection)
    if version:
        migrations.refuse_unless_current(version)
        return
    with transaction(connection) as tx:
        # Somebody else may have made them since the look.
        if tx.one("select 1 from sqlite_master where name = 'meta'") is None:
            migrations.create(tx)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[Tx]:
    """One transaction on a connection: committed at the end, rolled back on any error."""
    connection.execute("begin immediate")
    try:
        tx = SqliteTx(connection)
        yield tx
        tx.end()
        connection.execute("commit")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: sqlite3.Connection) -> None:
    # A full disk may have ended the transaction already.
    if connection.in_transaction:
        connection.execute("rollback")


class _Item:
    """One transaction in the queue and who waits for it."""

    __slots__ = ("after", "body", "brief", "error", "future", "result")

    def __init__(
        self,
        body: Callable[[Tx], Any],
        after: Callable[[Any], None] | None,
        future: asyncio.Future[Any] | Future[Any],
        brief: bool,
    ) -> None:
        self.body = body
        self.after = after
        self.future = future
        self.brief = brief
        self.result: Any = None
        self.error: BaseException | None = None


class SqliteStore:
    """A database file with its writer. Use `close` (or the context manager) to end it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = connect(path)
        migrate(self._connection)
        # Brief transactions run in the event loop, which must not wait: what finds the database
        # held goes to the writer's thread, which does.
        self._connection.execute("pragma busy_timeout = 0")
        self._mutex = threading.Lock()  # of the three that follow
        self._pending: deque[_Item] = deque()
        self._is_busy = False
        self._is_closed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="node-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="node-reader")
        self._local = threading.local()
        self._open_readers: list[sqlite3.Connection] = []

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the writer after what is queued, and closes every connection."""
        with self._mutex:
            self._is_closed = True
        self._writer.shutdown(wait=True)
        # What was about to run in the event loop, which is here and now waiting for us.
        while group := self._take():
            self._commit(group)
            _deliver(group)
        self._readers.shutdown(wait=True)
        for connection in self._open_readers:
            connection.close()
        self._connection.close()

    def write(
        self,
        body: Callable[[Tx], T],
        after: Callable[[T], None] | None = None,
        *,
        brief: bool = False,
    ) -> asyncio.Future[T]:
        """See `Store.write`. Must be called from the event loop's thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Item(body, after, future, brief))
        return future

    def write_now(self, body: Callable[[Tx], T]) -> T:
        """The same from a thread without an event loop; waits for it."""
        future: Future[T] = Future()
        self._put(_Item(body, None, future, False))
        return future.result()

    def read(self, body: Callable[[Tx], T]) -> asyncio.Future[T]:
        """See `Store.read`."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._readers, self._read, body)

    def read_now(self, body: Callable[[Tx], T]) -> T:
        """The same, waiting in this thread."""
        return self._readers.submit(self._read, body).result()

    def _read(self, body: Callable[[Tx], T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self.path, read_only=True)
            self._local.connection = connection
            self._open_readers.append(connection)
        connection.execute("begin")
        try:
            return body(SqliteTx(connection))
        finally:
            connection.execute("commit")

    # -- the writer's turns -----------------------------------------------------------------

    def _put(self, item: _Item) -> None:
        with self._mutex:
            if self._is_closed:
                raise NodeError(DATABASE_FAILED, reason="it is closed")
            self._pending.append(item)
        self._next_turn()

    def _next_turn(self) -> None:
        """Starts a group unless one is under way, whose end starts the next."""
        with self._mutex:
            if self._is_busy or self._is_closed or not self._pending:
                return
            self._is_busy = True
            first = self._pending[0]
            if not (first.brief and isinstance(first.future, asyncio.Future)):
                self._writer.submit(self._turn)
                return
        loop = first.future.get_loop()
        try:
            loop.call_soon_threadsafe(self._brief_turn)
        except RuntimeError:  # that loop has ended; somebody may still wait for the others
            self._writer.submit(self._turn)

    def _take(self) -> list[_Item]:
        """The next transactions that may share a turn: brief ones apart from others."""
        with self._mutex:
            group: list[_Item] = []
            while self._pending and len(group) < MAX_GROUP:
                if group and self._pending[0].brief != group[0].brief:
                    break
                group.append(self._pending.popleft())
            return group

    def _end_turn(self, group: list[_Item]) -> None:
        _deliver(group)
        with self._mutex:
            self._is_busy = False
        self._next_turn()

    def _turn(self) -> None:
        """A whole group in the writer's thread."""
        group = self._take()
        self._commit(group)
        self._end_turn(group)

    def _brief_turn(self) -> None:
        """Brief transactions in the event loop's thread; their commit is the writer's."""
        with self._mutex:
            if self._is_closed:
                return  # `close` has run them
        group = self._take()
        ends_s = time.monotonic() + BRIEF_S
        done = 0
        began = False
        try:
            self._connection.execute("begin immediate")
            began = True
            tx = SqliteTx(self._connection)
            for item in group:
                item.result = item.body(tx)
                done += 1
                if time.monotonic() > ends_s:
                    break
            tx.end()
        except Exception:  # each is run again alone, where its own error is kept
            done = len(group)
            _roll_back(self._connection)
            began = False
        with self._mutex:
            self._pending.extendleft(reversed(group[done:]))
        self._writer.submit(self._commit_brief, group[:done], began)

    def _commit_brief(self, group: list[_Item], began: bool) -> None:
        if began:
            try:
                self._connection.execute("commit")
            except sqlite3.Error:
                _roll_back(self._connection)
                began = False
        if not began:
            for item in group:
                self._attempt([item], final=True)
        self._run_after(group)
        self._end_turn(group)

    def _commit(self, group: list[_Item]) -> None:
        if not self._attempt(group):
            for item in group:
                self._attempt([item], final=True)
        self._run_after(group)

    def _run_after(self, group: list[_Item]) -> None:
        for item in group:
            if item.error is None and item.after is not None:
                try:
                    item.after(item.result)
                except Exception as error:  # the edge of the thread: whoever waits sees it
                    item.error = error

    def _attempt(self, group: list[_Item], *, final: bool = False) -> bool:
        self._connection.execute(f"pragma busy_timeout = {int(BUSY_S * 1000)}")
        try:
            with transaction(self._connection) as tx:
                for item in group:
                    item.result = item.body(tx)
        except Exception as error:  # the edge of the thread: whoever waits sees it
            if final:
                group[0].error = named(error)
            return False
        finally:
            self._connection.execute("pragma busy_timeout = 0")
        return True


def named(error: Exception) -> Exception:
    """A full or broken disk as an error of ours; anything else as it is."""
    if isinstance(error, sqlite3.OperationalError):
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
            return NodeError("database_locked", reason=str(error), wait_s=BUSY_S)
        return NodeError(DATABASE_FAILED, reason=str(error))
    return error


def _deliver(group: list[_Item]) -> None:
    """Sets results; those of one event loop by a single call into it."""
    loops: dict[asyncio.AbstractEventLoop, list[_Item]] = {}
    for item in group:
        if isinstance(item.future, Future):
            _settle(item.future, item)
        else:
            loops.setdefault(item.future.get_loop(), []).append(item)
    for loop, items in loops.items():
        # A loop that has ended has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_all, items)


def _settle_all(items: list[_Item]) -> None:
    for item in items:
        if not item.future.done():
            _settle(item.future, item)


def _settle(future: asyncio.Future[Any] | Future[Any], item: _Item) -> None:
    if item.error is not None:
        future.set_exception(item.error)
    else:
        future.set_result(item.result)
