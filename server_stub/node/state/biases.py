"""What is known of the signed errors of devices, by job and graph.

Owns: table `bias`, and in it the secret of each job, which the row of no device holds. Must not:
measure or judge: the workers do, by `gpugoblin.verify.bias`.

The secret is drawn with the first result of a job that is right and not equal to the validator's
own; it goes to the lab's judges and to no device. A device that errs in one direction is no liar by
that: its results are credited, the validator's own are used in their place, and nobody's agreement
with it counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gpugoblin.verify.bias import FEWEST, Bias, added, is_biased, mean_of
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx
from server_stub.node.work import Checked

__all__ = ["errs", "for_judging", "forget", "largest", "note"]

_KNOWN: Final = msgspec.json.Decoder(tuple[float, ...])
_SAVE: Final = (
    "insert into bias values(?, ?, ?, ?) on conflict(job, graph, device) do update set"
    " known = excluded.known"
)


def _of(tx: Tx, job: str, graph: str, device: str) -> Bias:
    row = tx.one(
        "select known from bias where job = ? and graph = ? and device = ?", (job, graph, device)
    )
    return () if row is None else _KNOWN.decode(row[0])


def _secret(tx: Tx, job: str) -> str:
    row = tx.one("select known from bias where job = ? and graph = '' and device = ''", (job,))
    return "" if row is None else str(row[0])


def for_judging(tx: Tx, job: str, graph: str, lease: str) -> tuple[str, Bias]:
    """What the judge of a result is told: the secret, and what is known of its device."""
    secret = _secret(tx, job)
    row = tx.one("select device from lease where id = ?", (lease,)) if secret else None
    return ("", ()) if row is None else (secret, _of(tx, job, graph, row[0]))


def note(step: Step, job: str, graph: str, device: str, reply: Checked) -> None:
    """Takes in a verdict about a device's result."""
    if reply.signed:
        known = added(_of(step.tx, job, graph, device), reply.signed)
        text = msgspec.json.encode(known).decode()
        step.tx.change(_SAVE, (job, graph, device, text))
    elif reply.accepted and reply.error > 0 and not _secret(step.tx, job):
        secret = step.rng.randbytes(32).hex()
        step.tx.change(_SAVE, (job, "", "", secret))


def errs(tx: Tx, job: str, graph: str, device: str) -> bool:
    """Whether a device's results of a graph err in one direction."""
    return is_biased(_of(tx, job, graph, device))


def largest(tx: Tx, job: str) -> dict[str, float]:
    """By graph the largest mean signed error of a device of which enough is known."""
    found: dict[str, float] = {}
    for graph, text in tx.rows(
        "select graph, known from bias where job = ? and device != ''", (job,)
    ):
        known = _KNOWN.decode(text)
        if known[0] >= FEWEST:
            found[graph] = max(found.get(graph, 0.0), min(1.0, mean_of(known)))
    return found


def forget(step: Step, job: str) -> None:
    """The job is deleted."""
    step.tx.change("delete from bias where job = ?", (job,))
