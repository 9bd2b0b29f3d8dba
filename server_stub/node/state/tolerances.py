"""What was measured of how far honest results of a job's graphs lie apart.

Owns: table `tolerance`, a row for each graph of a job, and at which tasks it is measured for those
that follow. Must not: measure or judge: the workers do, by `gpugoblin.verify.spread`.

What all results of a graph are held against must not depend on who disputes what: a device that
knows its inputs knows where an edge is near, and could have the widest tolerance of all made the
rule. So the first measurement counts until there are those of tasks that the lab has chosen before
anybody computed them, and of the last few of these the middle one, block by block. A dispute
elsewhere is measured, too, and decides about that result only.
"""

from __future__ import annotations

from statistics import median, median_low
from typing import Final
from zlib import crc32

import msgspec

from gpugoblin.ids import GraphHash
from gpugoblin.verify.spread import Tolerance
from gpugoblin.wire.messages.job import GraphTolerance
from server_stub.node.state import biases
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["MAX_SHOWN", "for_judging", "forget", "is_chosen", "load", "note", "shown"]

MAX_SHOWN: Final = 64
CHOSEN: Final = 64
"""One task in so many is measured whatever is known."""
KEPT: Final = 9


class _Used(msgspec.Struct):
    """What results are held against."""

    used: Tolerance


class _Row(_Used):
    """The same, with the measurements that it is the middle of, the newest last."""

    kept: list[Tolerance]


_USED = msgspec.json.Decoder(_Used)
_ROW = msgspec.json.Decoder(_Row)


def is_chosen(job: str, number: int) -> bool:
    """Whether this task is measured for those that follow. Nobody's result has a part in it."""
    return crc32(f"{job}.{number}".encode()) % CHOSEN == 0


def for_judging(tx: Tx, job: str, graph: str, number: int) -> Tolerance:
    """What the judge of a task is told: nothing at a chosen one, so that it measures."""
    return () if is_chosen(job, number) else load(tx, job, graph)


def load(tx: Tx, job: str, graph: str) -> Tolerance:
    """The tolerance of a graph; empty where nothing was measured."""
    row = tx.one("select measured from tolerance where job = ? and graph = ?", (job, graph))
    return () if row is None else _USED.decode(row[0]).used


def note(step: Step, job: str, graph: str, number: int, measured: Tolerance) -> None:
    """Keeps what was measured at task `number`, if it is the first or was chosen."""
    if not measured:
        return
    row = step.tx.one("select measured from tolerance where job = ? and graph = ?", (job, graph))
    if row is not None and not is_chosen(job, number):
        return
    kept = [] if row is None else _ROW.decode(row[0]).kept
    kept = [*kept, measured][-KEPT:]
    middle = tuple(
        tuple(median_low(block) for block in zip(*output, strict=True))
        for output in zip(*kept, strict=True)
    )
    step.tx.change(
        "insert into tolerance values(?, ?, ?) on conflict(job, graph) do update set"
        " measured = excluded.measured",
        (job, graph, msgspec.json.encode(_Row(middle, kept)).decode()),
    )


def shown(tx: Tx, job: str) -> tuple[GraphTolerance, ...]:
    """What is said of a job's tolerances: a line for each graph, at most `MAX_SHOWN`."""
    found = []
    signed = biases.largest(tx, job)
    for graph, measured in tx.rows(
        "select graph, measured from tolerance where job = ? order by graph limit ?",
        (job, MAX_SHOWN),
    ):
        parts = [part for output in _USED.decode(measured).used for part in output]
        if parts:
            mean = signed.get(graph, 0.0)
            found.append(GraphTolerance(GraphHash(graph), median(parts), max(parts), mean))
    return tuple(found)


def forget(step: Step, job: str) -> None:
    """The job is deleted."""
    step.tx.change("delete from tolerance where job = ?", (job,))
