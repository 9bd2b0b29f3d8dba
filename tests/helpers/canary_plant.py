"""The canaries of one run: data, shapes and names that occur nowhere else, and jobs made of them.

Owns: what is planted, and, after the run, what the lab node made of it (hashes, ids, sizes). A run
draws everything anew; its seed is in the message of a failure.

Shapes. The dimensions that are executed are 10,007 and 30,011 (thin, so that the numbers are few)
and one prime of seven digits, drawn; those of eight digits are planned only, on sparse files. A
dimension under 1,000 is no canary: such a number is everywhere.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import gpugoblin as gg
from tests.helpers.canary_forms import (
    bytes_forms,
    float_forms,
    number_forms,
    shape_forms,
    size_forms,
    text_forms,
)
from tests.helpers.canary_scan import Canary
from tests.helpers.canary_sources import Source

__all__ = ["Plant", "learned"]

LETTERS: Final = "ghijklmnopqrstuvwxyz"
OPERATORS: Final = ("matmul", "formula")
"""Of the jobs' operators those whose names are no words of something else (`reduce` is one)."""

UNITS: Final = (1e12, 1e10)
"""A unit of credit: operations, bytes (`server_stub.node.state.words.Rules`)."""

NO_KERNELS: Final = "0" * 64
"""The kernel set of an engine that has none."""

_QUOTED_HASH: Final = re.compile(rb'"([0-9a-f]{64})"')
_HASH: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_MIB: Final = 1 << 20
_SIZE_COLUMNS: Final = (
    "select flops from task",
    "select bytes_moved from task",
    "select memory_bound_bytes from task",
    "select verify_flops from task",
    "select nbytes from task_input",
    "select nbytes from task_output",
    "select stored_bytes from array",
)
_ID_COLUMNS: Final = ("select id from job", "select id from array", "select public from task")


class Plant:
    """Draws canaries and writes them into files below `directory`."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.seed = seed
        self._rng = random.Random(seed)
        self._directory = directory / self.name("directory")
        self._directory.mkdir()
        self._names: list[tuple[str, str]] = [("directory", self._directory.name)]
        self._shapes: list[tuple[int, ...]] = []
        self._patterns: list[tuple[str, bytes]] = []
        self.column = self._prime(1_050_000, 1_300_000)
        self.planned = self._prime(10_000_000, 35_000_000)

    def name(self, what: str) -> str:
        """Sixteen letters that say nothing."""
        drawn = "".join(self._rng.choices(LETTERS, k=16))
        if what != "directory":
            self._names.append((what, drawn))
        return drawn

    def array(self, *shape: int) -> gg.Array:
        """A float32 array in a file, all of it one pattern of 16 bytes over and over."""
        pattern = np.array([self._rng.uniform(0.5, 2.0) for _ in range(4)], np.float32)
        path = self._directory / f"{self.name('file')}.npy"
        np.save(path, np.resize(pattern, shape))
        self._patterns.append((path.name, pattern.tobytes()))
        self._shapes.append(shape)
        return gg.open(path)

    def sparse(self, *shape: int) -> gg.Array:
        """A float32 array in a file that takes no space."""
        path = self._directory / f"{self.name('file')}.npy"
        with path.open("wb") as file:
            header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + 4 * int(np.prod(shape, dtype=np.int64)))
        self._shapes.append(shape)
        return gg.open(path)

    def result(self, job: gg.Job) -> None:
        """The first numbers of a result are canaries as well."""
        values = np.asarray(job.array[...], np.float32).reshape(-1)
        self._shapes.append(tuple(job.array.shape))
        data = values[:4].tobytes()
        self._patterns.append((f"result of {job.name}", data + bytes(-len(data) % 8)))

    def canaries(self) -> Iterator[Canary]:
        """Everything that was planted."""
        for name in OPERATORS:
            # Any Python has these words in its memory.
            forms = [replace(form, is_strong=False) for form in text_forms(name)]
            yield Canary("operator", name, tuple(forms))
        for what, name in self._names:
            yield Canary("name", f"{what} {name}", tuple(text_forms(name)))
        for what, pattern in self._patterns:
            numbers = struct.unpack(f"<{len(pattern) // 4}f", pattern)
            printed = (form for number in numbers if number for form in float_forms(number))
            yield Canary("pattern", what, (*bytes_forms(pattern, 4), *printed))
        for dimension in sorted({d for shape in self._shapes for d in shape if d > 1000}):
            yield Canary(
                "dimension",
                str(dimension),
                (
                    *number_forms(dimension),
                    *(
                        form
                        for shape in self._shapes
                        if dimension in shape
                        for form in shape_forms(shape)
                    ),
                ),
                frozenset({float(dimension)}),
            )

    def _prime(self, low: int, high: int) -> int:
        while True:
            number = self._rng.randrange(low, high) | 1
            if all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2)):
                return number


def learned(
    node_database: Path, node_traffic: Iterable[Source], allowed: frozenset[str]
) -> Iterator[Canary]:
    """What the lab node knows besides: every hash, the ids of its own, the sizes of its tasks.

    Args:
        allowed: hashes (64 hexadecimal digits) that the coordinator may know: keys, certificates
            and the catalog's.
    """
    hashes: set[str] = set()
    with closing(sqlite3.connect(f"file:{node_database}?mode=ro", uri=True)) as connection:
        tables = connection.execute("select name from sqlite_master where type = 'table'")
        for (table,) in tables.fetchall():
            for row in connection.execute(f'select * from "{table}"'):  # noqa: S608
                for value in row:
                    hashes.update(_HASH.findall(value if isinstance(value, str) else ""))
        ids = {row[0] for query in _ID_COLUMNS for row in connection.execute(query)}
        sizes = {row[0] for query in _SIZE_COLUMNS for row in connection.execute(query)}
        plans = connection.execute("select plan from job").fetchall()
    for (plan,) in plans:
        sizes |= {value for value in json.loads(plan).values() if type(value) is int}
    for source in node_traffic:
        hashes.update(found.decode() for found in _QUOTED_HASH.findall(source.data))
    for name in sorted(hashes - allowed - {NO_KERNELS}):
        yield Canary("hash", name, tuple(bytes_forms(bytes.fromhex(name))))
    for name in sorted(ids):
        yield Canary("id", name, tuple(text_forms(name)))
    # A round number says nothing: limits and pieces are of such sizes too.
    for size in sorted(size for size in sizes if size > 1_000_000 and size % _MIB):
        numbers = frozenset({float(size), *(size / unit for unit in UNITS)})
        yield Canary("size", str(size), tuple(size_forms(size, UNITS)), numbers)
