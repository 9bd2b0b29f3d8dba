"""Statements for many rows, of few different texts.

Owns: into which lengths a list is cut. A statement of a length that was not used before is
compiled, which costs more than ten rows, and a connection keeps a bounded number of them. Must
not: know a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from server_stub.node.store.protocol import Tx, Value

__all__ = ["AT_ONCE", "insert", "marks", "pieces"]

AT_ONCE: Final = 64
"""Rows of one statement: its parameters are bounded."""

T = TypeVar("T")


def pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in order, in pieces whose lengths are powers of two, at most `AT_ONCE`."""
    begin = 0
    while begin < len(items):
        size = min(AT_ONCE, 1 << ((len(items) - begin).bit_length() - 1))
        yield items[begin : begin + size]
        begin += size


def marks(values: Sequence[Value]) -> tuple[str, list[Value]]:
    """What stands in the parentheses of `in (...)`, and its values: the last one is repeated up to
    a power of two, which changes no answer. At least one value."""
    size = 1 << (len(values) - 1).bit_length()
    return ("?, " * size)[:-2], [*values, *[values[-1]] * (size - len(values))]


def insert(tx: Tx, head: str, row: str, rows: Sequence[Sequence[Value]], tail: str = "") -> int:
    """`head row, row, ... tail` for all rows; `row` is one row's marks in parentheses. Returns how
    many were written."""
    written = 0
    for some in pieces(rows):
        values = [value for each in some for value in each]
        written += tx.change(head + ", ".join([row] * len(some)) + tail, values)
    return written
