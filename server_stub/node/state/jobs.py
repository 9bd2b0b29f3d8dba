"""Jobs: submitted, attached to, failed, cancelled, finished, shown.

Owns: tables `job`, `graph`, `builds`. A job's name is its owner's; the same name with the same
content attaches to the job that is there, or takes up the one that failed or was cancelled (see
`ended`). Ending a job ends its leases and all tasks that are not verified, in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gpugoblin.errors import NodeError
from gpugoblin.ids import GraphHash, JobId
from gpugoblin.wire.messages.job import JobInfo, LostWork, PlanReply, VerifiedBy
from gpugoblin.wire.messages.task import Constraints
from server_stub.node.state import (
    arrays,
    biases,
    ended,
    events,
    lanes,
    quotas,
    retention,
    tolerances,
)
from server_stub.node.state.words import FinishJob, Step
from server_stub.node.store.protocol import Row, Tx
from server_stub.node.training import rows as trainings

__all__ = [
    "MAX_SHOWN",
    "JobRow",
    "NewJob",
    "Submitted",
    "add_graph",
    "cancel",
    "delete",
    "fail",
    "find",
    "finish",
    "info",
    "load",
    "running",
    "running_state",
    "shown",
    "stop",
    "submit",
    "submitted",
    "window",
]

MAX_SHOWN = 1000


@dataclass(frozen=True, slots=True)
class NewJob:
    """A planned and admitted job. `inputs` and `outputs` are arrays; `limits` rebuild its plan."""

    owner: str
    name: str | None
    graph: bytes
    graph_hash: str
    operators: Mapping[str, int]
    dtypes: int
    content: str
    inputs: Sequence[str]
    outputs: Sequence[arrays.NewArray]
    numeric_class: str
    assurance: str
    executor: str
    constraints: Constraints
    priority: int
    block_axis: int | None
    limits: str
    speculative: int
    plan: PlanReply
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A row of `job`; the columns that the service reads."""

    id: str
    owner: str
    state: str
    graph: str
    inputs: tuple[str, ...]
    numeric_class: str
    assurance: str
    executor: str
    priority: int
    block_axis: int | None
    limits: str
    tasks: int
    cursor: int
    verified: int


@dataclass(frozen=True, slots=True)
class Submitted:
    """By whom and how a job was submitted, as far as it is needed to go on with it."""

    owner: str
    name: str | None
    content: str
    constraints: Constraints
    priority: int


def submitted(tx: Tx, job: str) -> Submitted:
    """How a job was submitted. Raises NodeError `unknown_job`."""
    row = tx.one("select owner, name, content, constraints, priority from job where id = ?", (job,))
    if row is None:
        raise NodeError("unknown_job", job=job)
    owner, name, content, constraints, priority = row
    decoded = msgspec.json.decode(constraints, type=Constraints)
    return Submitted(owner, name, content, decoded, priority)


def load(tx: Tx, job: str) -> JobRow | None:
    row = tx.one(
        "select id, owner, state, graph, inputs, numeric_class, assurance, executor, priority,"
        " block_axis, limits, tasks, cursor, verified from job where id = ?",
        (job,),
    )
    if row is None:
        return None
    values = list(row)
    values[4] = tuple(json.loads(row[4]))
    return JobRow(*values)


def window(tx: Tx, job: str) -> tuple[JobRow, bytes, int] | None:
    """A running job, its graph, and how many of its tasks nobody has taken yet."""
    row = load(tx, job)
    if row is None or row.state != "running":
        return None
    graph = tx.one("select data from graph where hash = ?", (row.graph,))
    ahead = tx.one(
        "select count(*) from task where job = ? and state in ('waiting', 'ready')", (job,)
    )
    if graph is None or ahead is None:
        return None
    return row, graph[0], int(ahead[0])


def find(tx: Tx, owner: str, id_or_name: str) -> str:
    """The id of a job of this owner.

    Raises:
        NodeError: `unknown_job`.
    """
    row = tx.one(
        "select id from job where owner = ? and (id = ? or name = ?) order by id = ? desc limit 1",
        (owner, id_or_name, id_or_name, id_or_name),
    )
    if row is None:
        raise NodeError("unknown_job", job=id_or_name)
    return str(row[0])


def add_graph(
    step: Step, graph_hash: str, data: bytes, operators: Mapping[str, int], dtypes: int
) -> None:
    """Keeps a graph's bytes under its hash, with what it needs of dtypes (`Dtypes.mask`)."""
    step.tx.change(
        "insert into graph values(?, ?, ?, ?) on conflict(hash) do nothing",
        (graph_hash, data, json.dumps(dict(operators)), dtypes),
    )


def submit(step: Step, new: NewJob) -> tuple[str, bool]:
    """Starts a job, or attaches to the one that has its name and content.

    Returns:
        its id, and whether it was there already.

    Raises:
        NodeError: `job_name_taken`: the name belongs to another computation; `quota_disk`,
            `quota_tasks`.
    """
    if new.name is not None:
        row = step.tx.one(
            "select id, content, state from job where owner = ? and name = ?",
            (new.owner, new.name),
        )
        if row is not None and row[2] in ("failed", "cancelled"):
            # Its name is free again; the old job stays under its id, and lets its results go.
            step.tx.change("update job set name = null where id = ?", (row[0],))
            ended.give_up(step, row[0])
        elif row is not None and row[1] == new.content:
            if not (row[2] == "done" and retention.is_collected(step.tx, row[0])):
                return str(row[0]), True
            # What it had computed was a cache and is gone: it is computed again.
            step.tx.change("update job set name = null where id = ?", (row[0],))
        elif row is not None:
            raise NodeError("job_name_taken", name=new.name, job=row[0])
    job = step.fresh_id("job")
    add_graph(step, new.graph_hash, new.graph, new.operators, new.dtypes)
    _insert(step, job, new)
    for number, array in enumerate(new.outputs):
        arrays.add(step, array, job=job, number=number)
    events.note(step, job, "submitted")
    events.note(step, job, "started")
    quotas.require(step, new.owner)
    if new.plan.tasks == 0:
        step.emit(FinishJob(job))
    return job, False


def _insert(step: Step, job: str, new: NewJob) -> None:
    step.tx.change(
        "insert into job(id, owner, name, state, graph, content, inputs, numeric_class, assurance,"
        " executor, constraints, priority, block_axis, limits, speculative, plan, tasks,"
        " created_s, started_s, lane, sequence, parent) values(?, ?, ?, 'running', ?, ?, ?, ?, ?,"
        " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            job, new.owner, new.name, new.graph_hash, new.content, json.dumps(list(new.inputs)),
            new.numeric_class, new.assurance, new.executor,
            msgspec.json.encode(new.constraints).decode(), new.priority, new.block_axis,
            new.limits, new.speculative, msgspec.json.encode(new.plan).decode(), new.plan.tasks,
            step.now_s, step.now_s, lanes.of_owner(step, new.owner),
            lanes.next_sequence(step.tx), _parent(step, new),
        ),
    )  # fmt: skip


def _parent(step: Step, new: NewJob) -> str | None:
    """The id of the parent. Raises NodeError `unknown_job`, `parent_ended`."""
    if new.parent is None:
        return None
    parent = find(step.tx, new.owner, new.parent)
    row = step.tx.one("select state from job where id = ?", (parent,))
    if row is None or row[0] in ("failed", "cancelled"):
        raise NodeError("parent_ended", job=new.parent)
    return parent


def finish(step: Step, job: str) -> None:
    """Every task is used and the outputs have their names. After `FinishJob`."""
    done = step.tx.change(
        "update job set state = 'done', finished_s = ?, error_code = '', error_text = ''"
        " where id = ? and state = 'running' and used = tasks",
        (step.now_s, job),
    )
    if done == 0:
        return
    arrays.complete_outputs(step, job)
    events.note(step, job, "done")


def cancel(step: Step, job: str) -> bool:
    """The researcher does not want it any more, nor the jobs whose parent it is, and theirs.

    Returns:
        False when it had ended before. Its children are cancelled all the same.
    """
    changed = _end(step, job, "cancelled", "", "", None)
    waiting, seen = [job], {job}
    while waiting:
        parent = waiting.pop()
        for (child,) in step.tx.rows("select id from job where parent = ? order by id", (parent,)):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                _end(step, child, "cancelled", "", "", None)
    return changed


def fail(step: Step, job: str, code: str, number: int | None, text: str = "") -> bool:
    """The job cannot be finished; `code` and `text` say why."""
    return _end(step, job, "failed", code, text, number)


def _end(step: Step, job: str, state: str, code: str, text: str, number: int | None) -> bool:
    changed = step.tx.change(
        "update job set state = ?, finished_s = ?, error_code = ?, error_text = ?"
        " where id = ? and state = 'running'",
        (state, step.now_s, code, text[:4096], job),
    )
    if changed == 0:
        return False
    ended.end_tasks(step, job, state, number)
    events.note(step, job, state, number, code)
    if code in ended.SPOILT or not _is_named(step, job):
        ended.give_up(step, job)
    return True


def stop(step: Step, job: str) -> bool:
    """The job has reached what it was for before its last task; False when it had ended."""
    if not _end(step, job, "done", "", "", None):
        return False
    ended.let_go(step, job)
    step.tx.change("update job set tasks = used where id = ?", (job,))
    return True


def _is_named(step: Step, job: str) -> bool:
    """Whether anybody can come back to it."""
    return step.tx.one("select 1 from job where id = ? and name is not null", (job,)) is not None


def delete(step: Step, job: str) -> list[arrays.ArrayRow]:
    """Forgets a job (cancelled first if it runs); returns its arrays, whose files may go."""
    dead = arrays.of_job(step.tx, job)
    cancel(step, job)
    ended.give_up(step, job)
    trainings.forget(step, job)
    tolerances.forget(step, job)
    biases.forget(step, job)
    arrays.remove_outputs(step, job)
    for statement in (
        "delete from vote where lease in (select id from lease where job = ?)",
        "delete from lease where job = ?",
        "delete from task_input where task in (select id from task where job = ?)",
        "delete from task_output where task in (select id from task where job = ?)",
        "delete from fold where job = ?",
        "delete from task where job = ?",
        "delete from region where job = ?",
        "delete from builds where job = ?",
        "delete from share where job = ?",
        "delete from event where job = ?",
        "delete from job where id = ?",
    ):
        step.tx.change(statement, (job,))
    return dead


def running_state(tx: Tx, job: str) -> bool:
    """Whether a job is there and has not ended."""
    return tx.one("select 1 from job where id = ? and state = 'running'", (job,)) is not None


def running(tx: Tx) -> list[str]:
    """Jobs that have not ended, the most urgent first."""
    rows = tx.rows(
        "select id from job where state = 'running' order by priority desc, created_s, id"
    )
    return [row[0] for row in rows]


_SHOWN = (
    "id, coalesce(name, id), owner, state, graph, content, tasks, verified, used, by_product,"
    " by_recompute, by_equality, by_agreement, lost_expired, lost_abandoned, lost_rejected,"
    " lost_late, credits, bytes_sent, bytes_received, created_s, started_s, finished_s, plan,"
    " error_code, error_text"
)


def info(tx: Tx, job: str, *, attached: bool = False) -> JobInfo:
    """A job as it stands. Raises NodeError `unknown_job`."""
    row = tx.one(f"select {_SHOWN} from job where id = ?", (job,))  # noqa: S608 - constant
    if row is None:
        raise NodeError("unknown_job", job=job)
    return _as_info(tx, row, attached)


def shown(tx: Tx, owner: str) -> tuple[JobInfo, ...]:
    """An owner's jobs, newest first."""
    rows = tx.rows(
        f"select {_SHOWN} from job where owner = ?"  # noqa: S608 - constant
        " order by created_s desc, id limit ?",
        (owner, MAX_SHOWN),
    )
    return tuple(_as_info(tx, row, False) for row in rows)


def _as_info(tx: Tx, row: Row, attached: bool) -> JobInfo:
    counts: dict[str, int] = dict(tx.rows(
        "select state, count(*) from task where job = ? and state not in"
        " ('used', 'cancelled', 'failed') group by state",
        (row[0],),
    ))  # fmt: skip
    return JobInfo(
        job=JobId(row[0]), name=row[1], owner=row[2], state=row[3], graph=GraphHash(row[4]),
        content=row[5], attached=attached, tasks=row[6], verified=row[7], used=row[8],
        leased=counts.get("leased", 0),
        checking=counts.get("checking", 0) + counts.get("suspect", 0),
        verified_by=VerifiedBy(*row[9:13]), lost=LostWork(*row[13:17]), credits=row[17],
        bytes_sent=row[18], bytes_received=row[19], created_s=row[20], started_s=row[21],
        finished_s=row[22], outputs=arrays.outputs(tx, row[0]),
        plan=msgspec.json.decode(row[23], type=PlanReply), error_code=row[24],
        error_text=row[25], tolerances=tolerances.shown(tx, row[0]),
    )  # fmt: skip
