"""Room on the disk that jobs and uploads were promised and have not used yet.

Owns: the rows of `meta` that begin with `room:`. A submission that is under way has one that says
what its results and blobs need, until its job is there; a job has one that says what its blobs
need. What results and uploads need follows from their own rows. Must not: look at a disk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from gpugoblin.catalog.spec import DTYPES
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["Promise", "drop", "forget_notes", "note", "of_blobs", "promised", "settle"]

_OF_JOB: Final = "room:"
_NEW: Final = "room:new:"


class Promise(NamedTuple):
    """Bytes that will come to a place.

    Args:
        is_file: the path is a file that may have some of them; else it is a directory, or a path
            in it, and these are the bytes that are missing.
        is_upload: somebody sends them, or has stopped sending them.
    """

    path: str
    nbytes: int
    is_file: bool = False
    is_upload: bool = False


def note(step: Step, wanted: Sequence[tuple[str, int]]) -> str:
    """Promises bytes, each to a directory, to a submission; returns the note."""
    key = _NEW + step.fresh_id("place")
    step.tx.change("insert into meta values(?, ?)", (key, json.dumps(list(wanted))))
    return key


def drop(step: Step, key: str) -> None:
    """The submission has come to nothing."""
    step.tx.change("delete from meta where key = ?", (key,))


def settle(step: Step, key: str, job: str, blob_bytes: int) -> None:
    """The submission has become a job: its arrays have rows now, its blobs this one."""
    drop(step, key)
    # Those of jobs that nobody can go on with, which are seldom many, go on the way.
    step.tx.change(
        "delete from meta where key >= ? and key < ? and key not like 'room:new:%'"
        " and not exists (select 1 from job j where j.id = substr(meta.key, 6)"
        " and j.state != 'done')",
        (_OF_JOB, _OF_JOB + "~"),
    )
    if blob_bytes:
        step.tx.change("insert into meta values(?, ?)", (_OF_JOB + job, str(blob_bytes)))


def forget_notes(step: Step) -> None:
    """After a start no submission is under way."""
    step.tx.change("delete from meta where key >= ? and key < ?", (_NEW, _NEW + "~"))


def promised(tx: Tx) -> list[Promise]:
    """What running jobs, submissions and uploads will still write; without blobs of jobs."""
    found = []
    rows = tx.rows(
        "select a.path, a.kind, a.dtype, a.shape, j.used, j.tasks from array a"
        " left join job j on j.id = a.job where a.complete = 0 and a.path != ''"
        " and (j.state = 'running' or (a.job is null and a.ours = 1))"
    )
    for path, kind, dtype, shape, used, tasks in rows:
        nbytes = math.prod(json.loads(shape)) * DTYPES[dtype].itemsize
        if kind == "zarr" and tasks:  # many files: by how much of the job is in its place
            found.append(Promise(path, nbytes * (tasks - used) // tasks))
        else:
            found.append(Promise(path, nbytes, is_file=True, is_upload=tasks is None))
    for (text,) in tx.rows("select value from meta where key >= ? and key < ?", (_NEW, _NEW + "~")):
        found += [Promise(path, nbytes) for path, nbytes in json.loads(text)]
    return found


def of_blobs(tx: Tx) -> int:
    """What blobs of running jobs will need beyond those that are here."""
    wanted = tx.one(
        "select coalesce(sum(cast(m.value as integer)), 0) from job j"
        " join meta m on m.key = 'room:' || j.id where j.state = 'running'"
    )
    # The weights that trainings which are over have left are nothing of what running jobs need.
    here = tx.one(
        "select coalesce(sum(nbytes), 0) from blob where refs > 0 and hash not in"
        " (select c.blob from checkpoint c join job j on j.id = c.job where j.state != 'running')"
    )
    if wanted is None or here is None:
        return 0
    return max(0, int(wanted[0]) - int(here[0]))
