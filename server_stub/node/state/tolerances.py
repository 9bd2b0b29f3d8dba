"""What was measured of how far honest results of a job's graphs lie apart.

Owns: table `tolerance`, a row for each graph of a job. Must not: measure or judge: the workers do,
by `gpugoblin.verify.spread`.
"""

from __future__ import annotations

from statistics import median
from typing import Final

import msgspec

from gpugoblin.ids import GraphHash
from gpugoblin.verify.spread import Tolerance, widened
from gpugoblin.wire.messages.job import GraphTolerance
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["MAX_SHOWN", "forget", "load", "note", "shown"]

MAX_SHOWN: Final = 64

_DECODER = msgspec.json.Decoder(Tolerance)


def load(tx: Tx, job: str, graph: str) -> Tolerance:
    """The tolerance of a graph; empty where nothing was measured."""
    row = tx.one("select measured from tolerance where job = ? and graph = ?", (job, graph))
    return () if row is None else _DECODER.decode(row[0])


def note(step: Step, job: str, graph: str, measured: Tolerance) -> None:
    """Keeps what was measured, or the wider of it and what is known: of two workers that measured
    at the same time neither takes back the other's."""
    if not measured:
        return
    wider = widened(load(step.tx, job, graph), measured)
    step.tx.change(
        "insert into tolerance values(?, ?, ?) on conflict(job, graph) do update set"
        " measured = excluded.measured",
        (job, graph, msgspec.json.encode(wider).decode()),
    )


def shown(tx: Tx, job: str) -> tuple[GraphTolerance, ...]:
    """What is said of a job's tolerances: a line for each graph, at most `MAX_SHOWN`."""
    found = []
    for graph, measured in tx.rows(
        "select graph, measured from tolerance where job = ? order by graph limit ?",
        (job, MAX_SHOWN),
    ):
        parts = [part for output in _DECODER.decode(measured) for part in output]
        if parts:
            found.append(GraphTolerance(GraphHash(graph), median(parts), max(parts)))
    return tuple(found)


def forget(step: Step, job: str) -> None:
    """The job is deleted."""
    step.tx.change("delete from tolerance where job = ?", (job,))
