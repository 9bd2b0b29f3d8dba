"""What a server could see, as bytes to be searched: its traffic, files, rows and memory.

Owns: reading. Nothing is judged here. A source that has a structure (JSON in the traffic, rows of
a database) also gives its numbers, so that a number is found whatever its width and spelling.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.helpers.canary_hop import Flow

__all__ = [
    "Source", "database", "database_in_postgres", "files", "memory", "request_lines", "traffic",
]  # fmt: skip

Number = int | float

_REQUEST: Final = re.compile(rb"([A-Z]{3,6} /v1/\S*) HTTP/1\.1\r\n")
_TICKET: Final = re.compile(rb"[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")
_LARGEST_REGION_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A place, its bytes, and the numbers that they say."""

    place: str
    data: bytes | bytearray
    numbers: frozenset[Number] = frozenset()


def traffic(flows: Iterable[Flow]) -> Iterator[Source]:
    """Each direction of each connection; the bodies of its messages and tickets, decoded."""
    for flow in flows:
        inside = [decoded for ticket in _TICKET.findall(flow.data) for decoded in _segments(ticket)]
        numbers = frozenset(
            number for text in (*_json_texts(flow.data), *inside) for number in _numbers(text)
        )
        yield Source(f"traffic: {flow.name}", flow.data, numbers)
        if inside:
            yield Source(f"tickets: {flow.name}", b"\n".join(inside))


def request_lines(flows: Iterable[Flow]) -> list[str]:
    """`POST /v1/contact` and the like, with queries cut off."""
    return [
        line.decode().partition("?")[0] for flow in flows for line in _REQUEST.findall(flow.data)
    ]


def files(*places: Path) -> Iterator[Source]:
    """Files, and all files below directories, with their names."""
    for place in places:
        paths = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in paths:
            if path.is_file():
                yield Source(f"file: {path.name}", str(path).encode() + b"\0" + path.read_bytes())


def database(path: Path) -> Iterator[Source]:
    """Every value of every row of an SQLite database, as a reader beside its server sees it."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        tables = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()  # noqa: S608
            yield _table(table, path.name, [value for row in rows for value in row])


def database_in_postgres(connection: Any) -> Iterator[Source]:
    """The same of a database in PostgreSQL, through a connection of psycopg's."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    ).fetchall()
    for (table,) in tables:
        rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()  # noqa: S608
        yield _table(table, "PostgreSQL", [value for row in rows for value in row])


def _table(table: str, place: str, values: list[Any]) -> Source:
    data = b"\0".join(
        bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()
        for value in values
    )
    numbers = frozenset(value for value in values if isinstance(value, (int, float)))
    return Source(f"table: {table} of {place}", data, numbers)


def memory(pid: int) -> Iterator[Source]:
    """The writable memory of a process.

    Raises:
        PermissionError: this system does not let us look.
    """
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            span, rights, *_ = line.split()
            start, stop = (int(end, 16) for end in span.split("-"))
            if not rights.startswith("rw") or stop - start > _LARGEST_REGION_BYTES:
                continue
            try:
                mem.seek(start)
                data = mem.read(stop - start)
            except (OSError, ValueError, OverflowError):
                continue  # a region that has gone, or that cannot be read
            yield Source(f"memory at {start:#x}", data)


def _json_texts(data: bytes | bytearray) -> Iterator[bytes]:
    """The bodies of a stream of HTTP messages that begin like JSON."""
    position = 0
    while (end := data.find(b"\r\n\r\n", position)) >= 0:
        head = bytes(data[position:end]).lower()
        found = re.search(rb"content-length: (\d+)", head)
        position = end + 4
        if found is not None:
            size = int(found[1])
            if data[position : position + 1] in (b"{", b"["):
                yield bytes(data[position : position + size])
            position += size


def _segments(ticket: bytes) -> Iterator[bytes]:
    for segment in ticket.split(b"."):
        try:
            yield base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))
        except binascii.Error:
            continue


def _numbers(text: bytes) -> Iterator[Number]:
    try:
        waiting: list[Any] = [json.loads(text)]
    except ValueError:
        return  # a signature, or a message whose end is still to come
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield value
