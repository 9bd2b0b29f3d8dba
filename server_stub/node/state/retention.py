"""How long the node keeps results: `durable` ones until their job is deleted, a `cache` while there
is room for it and somebody reads it.

Owns: the columns `retention` and `read_s` of table `array`, and the choice of what is let go of. A
cache that was let go of keeps its row, as `collected`: whoever asks for it is told so, and the same
submission computes it again. Must not: delete a file; what a running job reads stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpugoblin.errors import NodeError
from server_stub.node.state import arrays
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = [
    "NOTHING",
    "Limits",
    "collect",
    "collectable",
    "is_collected",
    "is_unread",
    "make_durable",
    "note_read",
    "require_kept",
]

COLLECTED: Final = "collected"
NOTED_S: Final = 3600.0
"""A read is written down when the last one that was is older."""

DAY_S: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What caches may take. None: as long, or as much, as there is room.

    Args:
        age_s: since the last read, or since the job was done.
        nbytes: of all caches together; the ones that were read last stay.
    """

    age_s: float | None = None
    nbytes: int | None = None

    @classmethod
    def of(cls, days: float, nbytes: int) -> Limits:
        """From settings, where 0 says that there is no limit."""
        return cls(days * DAY_S if days else None, nbytes or None)


NOTHING: Final = Limits(nbytes=0)
"""No cache stays."""


def collectable(tx: Tx, owner: str | None = None) -> list[tuple[arrays.ArrayRow, float]]:
    """Every cache that no unfinished or resumable job reads, with the moment of its last read, the
    oldest first.

    Args:
        owner: whose; None: everybody's.
    """
    rows = tx.rows(
        "select id, read_s from array where retention = 'cache' and complete = 1 and ours = 1"
        " and path != '' and (? is null or owner = ?) and not exists (select 1 from job where"
        " job.state != 'done' and job.inputs like '%\"' || array.id || '\"%')"
        " order by read_s, id",
        (owner, owner),
    )
    return [(row, read_s) for array, read_s in rows if (row := arrays.load(tx, array)) is not None]


def collect(step: Step, limits: Limits, owner: str | None = None) -> list[arrays.ArrayRow]:
    """Lets go of what is over the limits; returns the rows as they were, whose files may go."""
    found = collectable(step.tx, owner)
    total = sum(row.nbytes for row, _ in found)
    gone = []
    for row, read_s in found:
        too_old = limits.age_s is not None and read_s < step.now_s - limits.age_s
        too_much = limits.nbytes is not None and total > limits.nbytes
        if not (too_old or too_much):
            continue
        total -= row.nbytes
        step.tx.change(
            "update array set retention = ?, complete = 0, path = '', final_path = '' where id = ?",
            (COLLECTED, row.id),
        )
        gone.append(row)
    return gone


def is_unread(tx: Tx, row: arrays.ArrayRow, now_s: float) -> bool:
    """Whether a read of this array is to be noted."""
    if row.retention != "cache":
        return False
    found = tx.one("select read_s from array where id = ?", (row.id,))
    return found is not None and found[0] < now_s - NOTED_S


def note_read(step: Step, array: str) -> None:
    """Somebody reads it now."""
    step.tx.change("update array set read_s = ? where id = ?", (step.now_s, array))


def make_durable(step: Step, job: str) -> None:
    """Somebody wants the results of this job kept who submitted it as others had before."""
    step.tx.change(
        "update array set retention = 'durable' where job = ? and retention = 'cache'", (job,)
    )


def is_collected(tx: Tx, job: str) -> bool:
    """Whether a result of this job was let go of."""
    return tx.one(
        "select 1 from array where job = ? and retention = ?", (job, COLLECTED)
    ) is not None  # fmt: skip


def require_kept(row: arrays.ArrayRow) -> None:
    """Raises NodeError `result_collected`."""
    if row.retention == COLLECTED:
        raise NodeError("result_collected", array=row.id, job=row.job or "-")
