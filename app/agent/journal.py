"""The journal: grants that hold and leases that are held, so that a kill forgets nothing.

Owns: one small SQLite file. Must not: keep anything about a computation: ids, times and tickets
only. WAL with `synchronous=NORMAL`: a transaction survives the death of this process; after a power
cut the last ones may be missing, and leases end by themselves then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpugoblin.errors import AgentError
from gpugoblin.ids import GrantId, LeaseId
from gpugoblin.wire.messages.contact import GrantOffer

__all__ = ["Journal", "Recall", "opened", "told"]

_SCHEMA = """
create table if not exists grants (
    grant_id text primary key, offer blob not null, until_s real not null
) without rowid;
create table if not exists leases (
    lease_id text primary key, grant_id text not null
) without rowid;
"""


@dataclass(frozen=True, slots=True)
class Recall:
    """What the last process held when it ended: offers with their grant, leases with theirs."""

    grants: tuple[tuple[GrantId, GrantOffer], ...]
    leases: tuple[tuple[LeaseId, GrantId], ...]


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Makes what SQLite says of a file an error for people.

    Raises:
        AgentError: `state_unwritable`: the disk is full or fails; `state_damaged`: the file is no
            database.
    """
    try:
        yield
    except sqlite3.OperationalError as cause:
        raise AgentError("state_unwritable", path=path, reason=cause) from cause
    except sqlite3.DatabaseError as cause:
        raise AgentError("state_damaged", path=path, reason=cause) from cause


def opened(path: Path, schema: str) -> sqlite3.Connection:
    """A small database of this agent alone. Raises AgentError as `told`."""
    with told(path):
        database = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        try:
            path.chmod(0o600)
            database.execute("pragma journal_mode = wal")
            database.execute("pragma synchronous = normal")
            database.executescript(schema)
        except sqlite3.Error:
            database.close()
            raise
    return database


class Journal:
    """Opened once by the one agent of a state directory; used from one thread.

    Raises:
        AgentError: `state_damaged`: the file is not a journal (nothing is deleted);
            `state_unwritable`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = opened(path, _SCHEMA)

    @contextmanager
    def together(self) -> Iterator[None]:
        """All changes inside become one transaction, on disk when this returns.

        Raises:
            AgentError: `state_unwritable`; nothing was changed then.
        """
        with told(self._path):
            self._database.execute("begin immediate")
            try:
                yield
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:  # a full disk may have ended it already
                    self._database.execute("rollback")
                raise

    def open_grant(self, grant: GrantId, offer: GrantOffer, until_s: float) -> None:
        """Keeps a grant. `until_s`: Unix seconds."""
        self._database.execute(
            "insert or replace into grants values (?, ?, ?)",
            (grant, msgspec.json.encode(offer), until_s),
        )

    def close_grant(self, grant: GrantId) -> None:
        """Strikes a grant and its leases."""
        self._database.execute("delete from grants where grant_id = ?", (grant,))
        self._database.execute("delete from leases where grant_id = ?", (grant,))

    def remember(self, lease: LeaseId, grant: GrantId) -> None:
        """Keeps a lease."""
        self._database.execute("insert or replace into leases values (?, ?)", (lease, grant))

    def forget(self, lease: LeaseId) -> None:
        """Strikes a lease whose end the lab knows."""
        self._database.execute("delete from leases where lease_id = ?", (lease,))

    def recall(self, now_s: float) -> Recall:
        """Everything that still holds at `now_s` (Unix seconds); what is over is struck here.

        Raises:
            AgentError: `state_damaged`, `state_unwritable`.
        """
        with told(self._path):
            self._database.execute("delete from grants where until_s <= ?", (now_s,))
            self._database.execute(
                "delete from leases where grant_id not in (select grant_id from grants)"
            )
        try:
            grants = tuple(
                (GrantId(grant), msgspec.json.decode(offer, type=GrantOffer))
                for grant, offer in self._database.execute(
                    "select grant_id, offer from grants order by grant_id"
                )
            )
        except msgspec.DecodeError as cause:
            raise AgentError("state_damaged", path=self._path, reason=cause) from cause
        leases = tuple(
            (LeaseId(lease), GrantId(grant))
            for lease, grant in self._database.execute(
                "select lease_id, grant_id from leases order by lease_id"
            )
        )
        return Recall(grants, leases)

    def held(self) -> int:
        """How many leases are kept."""
        count: int = self._database.execute("select count(*) from leases").fetchone()[0]
        return count

    def close(self) -> None:
        """Closes the file."""
        self._database.close()
