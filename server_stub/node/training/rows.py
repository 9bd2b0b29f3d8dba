"""The rows of trainings: how far each is, and which weights are kept.

Owns: tables `training`, `checkpoint` and `arrival`. A round counts as done in the transaction that
uses its step, which also takes hold of the new weights and lets go of older ones: at every moment
the newest verified weights are here, whatever dies. Must not: read a number of a tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import Struct

from gpugoblin.errors import NodeError
from gpugoblin.plan.round_items import STEP_AFFINITY
from server_stub.node.state import blobs
from server_stub.node.state.tasks import TaskRow
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = [
    "Geometry",
    "TrainingRow",
    "add",
    "carried_blobs",
    "end_early",
    "forget",
    "load",
    "note_record",
    "records",
    "running",
    "seen",
    "used",
    "versions",
]


class Geometry(Struct, frozen=True):
    """Where in the numbering of a training's tasks its steps are.

    Args:
        lead: tasks before the first round. round_tasks: of each.
        every, extra: after so many rounds, so many tasks of an evaluation; 0: never.
        steps: place in a round of each task that steps -> which carried tensors it gives.
        tensors: how many are carried.
    """

    lead: int
    round_tasks: int
    every: int
    extra: int
    steps: dict[int, tuple[int, ...]]
    tensors: int

    def carried(self, number: int) -> tuple[int, ...] | None:
        """Which carried tensors the outputs of a task are; None where it is no step."""
        rest = number - self.lead
        if self.every:
            rest %= self.every * self.round_tasks + self.extra
            if rest >= self.every * self.round_tasks:
                return None
        return self.steps.get(rest % self.round_tasks) if rest >= 0 else None


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row of `training`.

    Args:
        program: the message that it began with. arrays: the specs of what it reads.
        done: rounds that are done. seen: those whose numbers have been looked at.
        keep_every: weights of every so many steps stay. geometry: where its steps are.
    """

    job: str
    program: bytes
    arrays: str
    done: int
    seen: int
    ended_early: str
    first_step: int
    keep_every: int
    geometry: Geometry


_COLUMNS = "job, program, arrays, done, seen, ended_early, first_step, keep_every, geometry"
_GEOMETRY = msgspec.json.Decoder(Geometry)


def load(tx: Tx, job: str) -> TrainingRow | None:
    """The row of a job, or None where it is no training."""
    row = tx.one(f"select {_COLUMNS} from training where job = ?", (job,))  # noqa: S608 - constant
    if row is None:
        return None
    values = [*row[:-1], _GEOMETRY.decode(row[-1])]
    return TrainingRow(*values)


def add(step: Step, row: TrainingRow) -> None:
    """A training that begins."""
    step.tx.change(
        f"insert into training({_COLUMNS}) values(?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row.job, row.program, row.arrays, row.done, row.seen, row.ended_early, row.first_step,
         row.keep_every, msgspec.json.encode(row.geometry).decode()),
    )  # fmt: skip


def running(tx: Tx) -> list[str]:
    """Trainings with rounds that nobody has looked at."""
    rows = tx.rows(
        "select t.job from training t join job j on j.id = t.job"
        " where j.state in ('running', 'done') and t.seen < t.done"
    )
    return [row[0] for row in rows]


def seen(step: Step, job: str, rounds: int) -> None:
    """The numbers of the first `rounds` rounds have been looked at."""
    step.tx.change("update training set seen = max(seen, ?) where job = ?", (rounds, job))


def end_early(step: Step, job: str, words: str) -> None:
    """Why a training ends before its last step."""
    step.tx.change("update training set ended_early = ? where job = ?", (words, job))


def used(step: Step, task: TaskRow) -> None:
    """A task is used: where the steps of its round are all used, its weights are the newest."""
    if task.affinity != STEP_AFFINITY:
        return
    row = load(step.tx, task.job)
    if row is None:
        return
    places = row.geometry.carried(task.number)
    if places is None:
        return
    version = task.weight_version + 1
    _hold(step, task, version, places)
    held = step.tx.one(
        "select count(*) from checkpoint where job = ? and version = ?", (task.job, version)
    )
    if held is None or held[0] < row.geometry.tensors:
        return
    step.tx.change(
        "update training set done = ? where job = ?", (version - row.first_step, task.job)
    )
    for (old,) in step.tx.rows(
        "select distinct version from checkpoint where job = ? and version < ?"
        " and (? = 0 or version % max(1, ?) != 0)",
        (task.job, version, row.keep_every, row.keep_every),
    ):
        _let_go(step, task.job, old)


def _hold(step: Step, task: TaskRow, version: int, places: tuple[int, ...]) -> None:
    kept = step.tx.rows(
        "select slot, blob, nbytes from task_output where task = ? and array is null"
        " and blob is not null order by slot",
        (task.id,),
    )
    for slot, blob, nbytes in kept:
        if slot < len(places):
            blobs.hold(step, blob, nbytes)
            step.tx.change(
                "insert into checkpoint values(?, ?, ?, ?)",
                (task.job, version, places[slot], blob),
            )


def _let_go(step: Step, job: str, version: int) -> None:
    for (blob,) in step.tx.rows(
        "delete from checkpoint where job = ? and version = ? returning blob", (job, version)
    ):
        blobs.release(step, blob)


def versions(tx: Tx, job: str) -> list[int]:
    """The versions of the weights that are kept, oldest first."""
    rows = tx.rows("select distinct version from checkpoint where job = ? order by version", (job,))
    return [row[0] for row in rows]


def carried_blobs(tx: Tx, job: str, version: int) -> list[str]:
    """What is carried after `version` steps, as blobs.

    Raises:
        NodeError: `version_gone`.
    """
    rows = tx.rows(
        "select blob from checkpoint where job = ? and version = ? order by slot", (job, version)
    )
    if not rows:
        known = ", ".join(map(str, versions(tx, job)[-5:])) or "none yet"
        raise NodeError("version_gone", version=version, known=known)
    return [row[0] for row in rows]


def note_record(step: Step, job: str, turn: int, in_time: str) -> None:
    """A round ends with these shards: the record that its step, and the next one's, follow from."""
    step.tx.change(
        "insert into arrival values(?, ?, ?, ?)", (job, turn, in_time, step.now_s)
    )  # fmt: skip


def records(tx: Tx, job: str, first: int = 0, count: int = -1) -> dict[int, str]:
    """What was in time in rounds that have ended, from round `first` on; -1: all of them."""
    rows = tx.rows(
        "select round, in_time from arrival where job = ? and round >= ? order by round limit ?",
        (job, first, count),
    )
    return dict(rows)


def forget(step: Step, job: str) -> None:
    """The job is deleted: its weights go."""
    for version in versions(step.tx, job):
        _let_go(step, job, version)
    step.tx.change("delete from arrival where job = ?", (job,))
    step.tx.change("delete from training where job = ?", (job,))
