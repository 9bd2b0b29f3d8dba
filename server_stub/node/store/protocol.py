"""What the state machine asks of a database.

Owns: `Tx` (statements inside one transaction) and `Store` (who runs transactions). Statements are
written in the common part of SQLite and PostgreSQL with `?` for parameters: `returning`, `on
conflict`, partial indexes, no triggers. Must not: know any dialect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["Row", "Store", "Tx", "Value"]

Value = str | bytes | int | float | None
Row = tuple[Any, ...]
T = TypeVar("T")


class Tx(Protocol):
    """One open transaction, or a reader's view."""

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query, or of a change with `returning`."""
        ...

    def one(self, statement: str, parameters: Sequence[Value] = ()) -> Row | None:
        """The first row, or None."""
        ...

    def change(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        """Runs a change and says how many rows it touched."""
        ...

    def at_end(self, body: Callable[[Tx, list[T]], None], item: T) -> None:
        """Has `body` run once before the commit, with the items of all who said so.

        Transactions that share a commit share the call. Nothing reads what `body` will write
        before the commit.
        """
        ...


class Store(Protocol):
    """Runs transactions: one writer, many readers."""

    def write(
        self,
        body: Callable[[Tx], T],
        after: Callable[[T], None] | None = None,
        *,
        brief: bool = False,
    ) -> Awaitable[T]:
        """Runs `body` in a durable transaction, alone. It may be run twice if it is interrupted.

        `brief` says that it takes well under a millisecond: a store may run it at once.
        `after` runs when the transaction is durable and before any other one starts.

        Raises:
            StoreError: the disk is full or unreadable; nothing of `body` has happened.
        """
        ...

    def read(self, body: Callable[[Tx], T]) -> Awaitable[T]:
        """Runs `body` on a consistent view that does not wait for the writer."""
        ...
