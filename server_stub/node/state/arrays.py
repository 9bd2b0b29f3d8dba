"""Arrays of the node: inputs that clients named or sent, outputs that jobs fill.

Owns: table `array`. Must not: open a file. Arrays of one owner with one fingerprint are one array.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import PurePath
from typing import cast

from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import NodeError
from gpugoblin.ids import ArrayId
from gpugoblin.wire.bounds import Dtype
from gpugoblin.wire.messages.job import ArrayInfo
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Row, Tx

__all__ = [
    "ArrayRow",
    "NewArray",
    "add",
    "add_input",
    "as_info",
    "complete_outputs",
    "discarded",
    "kept_bytes",
    "load",
    "move_own",
    "moved",
    "of_job",
    "of_owner",
    "outputs",
    "remove_incomplete",
    "remove_outputs",
    "stored",
    "unfinished_bytes",
    "unused_uploads",
]

FileKind = str


@dataclass(frozen=True, slots=True)
class NewArray:
    """An array to be known. `ours`: the file is the node's own and goes with the array.
    `retention`: see `state.retention`."""

    id: str
    owner: str
    source: str
    kind: FileKind
    path: str
    member: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]
    fingerprint: str
    stored_bytes: int
    complete: bool
    ours: bool
    final_path: str = ""
    overwrite: bool = False
    retention: str = "durable"


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """A row of `array`."""

    id: str
    owner: str
    source: str
    kind: FileKind
    path: str
    member: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]
    fingerprint: str
    stored_bytes: int
    complete: bool
    ours: bool
    final_path: str
    overwrite: bool
    job: str | None
    number: int | None
    retention: str = "durable"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


_COLUMNS = (
    "id, owner, source, kind, path, member, offset_bytes, dtype, shape, fingerprint, stored_bytes,"
    " complete, ours, final_path, overwrite, job, number, retention"
)


def _row(row: Row) -> ArrayRow:
    values = list(row)
    values[8] = tuple(json.loads(row[8]))
    values[11], values[12], values[14] = bool(row[11]), bool(row[12]), bool(row[14])
    return ArrayRow(*values)


def load(tx: Tx, array: str) -> ArrayRow | None:
    row = tx.one(f"select {_COLUMNS} from array where id = ?", (array,))  # noqa: S608 - constant
    return None if row is None else _row(row)


def of_owner(tx: Tx, owner: str, array: str) -> ArrayRow:
    """An array of this owner. Raises NodeError `unknown_array`."""
    row = load(tx, array)
    if row is None or row.owner != owner:
        raise NodeError("unknown_array", array=array)
    return row


def add(step: Step, new: NewArray, *, job: str | None = None, number: int | None = None) -> None:
    """Writes a row."""
    step.tx.change(
        f"insert into array({_COLUMNS}, created_s)"
        " values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (new.id, new.owner, new.source, new.kind, new.path, new.member, new.offset_bytes,
         new.dtype, json.dumps(new.shape), new.fingerprint, new.stored_bytes, int(new.complete),
         int(new.ours), new.final_path, int(new.overwrite), job, number, new.retention,
         step.now_s),
    )  # fmt: skip


def add_input(step: Step, new: NewArray) -> ArrayRow:
    """An input, or the equal one that this owner has here already."""
    row = step.tx.one(
        f"select {_COLUMNS} from array where owner = ? and fingerprint = ? and source = ?"  # noqa: S608
        " and path = ? and member = ? and dtype = ? and shape = ? and job is null limit 1",
        (new.owner, new.fingerprint, new.source, new.path if not new.ours else "", new.member,
         new.dtype, json.dumps(new.shape)),
    ) if not new.ours else step.tx.one(
        f"select {_COLUMNS} from array where owner = ? and fingerprint = ? and source = ?"  # noqa: S608
        " and dtype = ? and shape = ? and job is null limit 1",
        (new.owner, new.fingerprint, new.source, new.dtype, json.dumps(new.shape)),
    )  # fmt: skip
    if row is not None:
        return _row(row)
    add(step, new)
    made = load(step.tx, new.id)
    assert made is not None  # noqa: S101 - inserted above
    return made


def stored(step: Step, array: str, stored_bytes: int, *, complete: bool) -> None:
    """How much of an upload is on disk."""
    step.tx.change(
        "update array set stored_bytes = ?, complete = ? where id = ?",
        (stored_bytes, int(complete), array),
    )


def move_own(step: Step, root: PurePath) -> int:
    """The node's own arrays lie in `root` now: its state directory may have been moved while it was
    down. Returns how many rows named another place."""
    moved = 0
    for array, *before in step.tx.rows(
        "select id, path, final_path from array where ours = 1 order by id"
    ):
        after = [str(root / PurePath(path).name) if path else "" for path in before]
        if after != before:
            step.tx.change(
                "update array set path = ?, final_path = ? where id = ?", (*after, array)
            )
            moved += 1
    return moved


def moved(step: Step, array: str, path: str, member: str, offset_bytes: int) -> None:
    """A result is written anew, into another file; what the node keeps itself it may replace."""
    step.tx.change(
        "update array set path = ?, member = ?, offset_bytes = ?, complete = 0,"
        " overwrite = max(overwrite, ours) where id = ?",
        (path, member, offset_bytes, array),
    )


def kept_bytes(tx: Tx, owner: str) -> int:
    """What the node keeps, or has promised to keep, of an owner's uploads and results. Unfinished
    results without a final path are given up: their files are about to go."""
    rows = tx.rows(
        "select dtype, shape from array where owner = ? and ours = 1"
        " and (complete = 1 or (path != '' and (job is null or final_path != '')))",
        (owner,),
    )
    return sum(math.prod(json.loads(shape)) * DTYPES[dtype].itemsize for dtype, shape in rows)


def unfinished_bytes(tx: Tx, job: str) -> int:
    """What an ended job keeps of results that are not whole: what it gives back when given up."""
    rows = of_job(tx, job)
    return sum(row.nbytes for row in rows
               if row.ours and not row.complete and row.path and row.final_path)  # fmt: skip


def complete_outputs(step: Step, job: str) -> None:
    """The arrays of a finished job are whole and have their names."""
    step.tx.change(
        "update array set complete = 1, path = final_path, read_s = ? where job = ?",
        (step.now_s, job),
    )


def of_job(tx: Tx, job: str) -> list[ArrayRow]:
    """The output arrays of a job, in order."""
    rows = tx.rows(
        f"select {_COLUMNS} from array where job = ? order by number",  # noqa: S608 - constant
        (job,),
    )
    return [_row(row) for row in rows]


def discarded(step: Step, job: str) -> None:
    """The files of a job that ended without results are gone."""
    step.tx.change("update array set path = '' where job = ? and complete = 0", (job,))


def remove_outputs(step: Step, job: str) -> None:
    """Forgets the output arrays of a job."""
    step.tx.change("delete from array where job = ?", (job,))


def remove_incomplete(step: Step, array: str) -> bool:
    """Forgets an upload, unless it is complete; says whether it was forgotten."""
    return step.tx.change("delete from array where id = ? and complete = 0", (array,)) == 1


def unused_uploads(step: Step) -> list[ArrayRow]:
    """Forgets uploads that no job names and that have been here for long; returns their rows."""
    rows = step.tx.rows(
        f"delete from array where job is null and ours = 1 and created_s < ?"  # noqa: S608
        " and not exists (select 1 from job where job.inputs like '%\"' || array.id || '\"%')"
        f" returning {_COLUMNS}",
        (step.now_s - step.rules.unused_upload_s,),
    )
    return [_row(row) for row in rows]


def as_info(row: ArrayRow) -> ArrayInfo:
    """What a client is told about an array. An output is verified once its job is done."""
    return ArrayInfo(
        array=ArrayId(row.id),
        dtype=cast(Dtype, row.dtype),
        shape=row.shape,
        stored_bytes=row.nbytes if row.complete else row.stored_bytes,
        complete=row.complete,
        verified=row.complete and row.job is not None,
    )


def outputs(tx: Tx, job: str) -> tuple[ArrayInfo, ...]:
    """The output arrays of a job, in order."""
    return tuple(as_info(row) for row in of_job(tx, job))
