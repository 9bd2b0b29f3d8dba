"""Tasks and their inputs: made from the plan, ready when every input is there.

Owns: tables `task`, `task_input`, `task_output`, `region`. An input is a box of one of the job's
arrays (a region: the local engine reads it from the file, the grid needs it packed as a blob) or
an output of an earlier task. The speculation depth of a job says how far a task may run ahead of
inputs that are still being checked; with 0, the default, it never does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gpugoblin.graph.dtypes import class_bits
from gpugoblin.plan.spec import ArrayRegion, PlannedTask, Region
from server_stub.node.state import blobs, lanes
from server_stub.node.state.words import SANDBOX_RANK, RunWork, Step, TaskState, Wake
from server_stub.node.store.protocol import Row, Tx

__all__ = [
    "COLUMNS",
    "TaskRow",
    "box_text",
    "collect_inputs",
    "fill",
    "generate",
    "inputs_verified",
    "load",
    "move",
    "note_region",
    "prepared",
    "read_box",
    "read_picked",
    "release_inputs",
    "release_inputs_unless_judged",
    "taken",
]

COLUMNS = (
    "id, public, job, number, state, executor, attempt, graph, verify, flops, bytes_moved,"
    " memory_bound_bytes, depth, consumers_left, winner, since_s,"
    " verify_flops, prio, affinity, weight_version"
)


class TaskRow(NamedTuple):
    """A row of `task`; the columns that the rules read."""

    id: int
    public: str
    job: str
    number: int
    state: TaskState
    executor: str
    attempt: int
    graph: str
    verify: str
    flops: int
    bytes_moved: int
    memory_bound_bytes: int
    depth: int
    consumers_left: int
    winner: str | None
    since_s: float
    verify_flops: int
    prio: int
    affinity: int
    weight_version: int


def load(tx: Tx, task: int) -> TaskRow | None:
    """The task, or None when its job has been deleted."""
    row = tx.one(f"select {COLUMNS} from task where id = ?", (task,))  # noqa: S608 - constant
    return None if row is None else TaskRow(*row)


_STATE: Final = TaskRow._fields.index("state")
_SINCE: Final = TaskRow._fields.index("since_s")


def taken(row: Row, now_s: float) -> TaskRow:
    """A ready task as it is once it is leased."""
    return TaskRow._make(
        (*row[:_STATE], "leased", *row[_STATE + 1 : _SINCE], now_s, *row[_SINCE + 1 :])
    )


def move(step: Step, task: int, sources: Sequence[TaskState], target: TaskState) -> bool:
    """Changes a task's state if it is in one of `sources`; says whether it was."""
    marks = ", ".join("?" * len(sources))
    moved = step.tx.change(
        f"update task set state = ?, since_s = ? where id = ? and state in ({marks})",  # noqa: S608
        (target, step.now_s, task, *sources),
    )
    return moved == 1


def box_text(region: Region, rows: Sequence[int] = ()) -> str:
    """A box as it is kept in rows: `[[start...],[stop...]]`, and the rows that are picked."""
    parts = [region.start, region.stop, rows] if rows else [region.start, region.stop]
    return json.dumps(parts, separators=(",", ":"))


def read_box(text: str) -> Region:
    """The box of a row."""
    start, stop, *_ = json.loads(text)
    return Region(tuple(start), tuple(stop))


def read_picked(text: str) -> tuple[int, ...]:
    """The rows that the box of a row picks; none where it is a plain box."""
    _, _, *picked = json.loads(text)
    return tuple(picked[0]) if picked else ()


def generate(
    step: Step, job: str, first: int, planned: Sequence[tuple[PlannedTask, str, int]]
) -> int:
    """Adds tasks `first ...` of a running job; does nothing when they are there already.

    Args:
        planned: each task with the hash of its graph (stored before) and its number of consumers.

    Returns:
        how many were added.
    """
    row = step.tx.one(
        "update job set cursor = cursor + ? where id = ? and cursor = ? and state = 'running'"
        " returning executor, priority, constraints, speculative, lane, sequence, numeric_class",
        (len(planned), job, first),
    )
    if row is None:
        return 0
    executor, priority, constraints_text, speculative, lane, sequence, numeric_class = row
    constraints = json.loads(constraints_text)
    place = (-priority, lane, lanes.turn_of(priority, sequence))
    asking = class_bits(numeric_class)
    for task, graph, consumers in planned:
        _add(step, job, executor, place, constraints, task, graph, consumers, speculative, asking)
    return len(planned)


def _add(
    step: Step,
    job: str,
    executor: str,
    place: tuple[int, int, int],
    constraints: dict[str, Any],
    task: PlannedTask,
    graph: str,
    consumers: int,
    speculative: int,
    asking: tuple[int, int],
) -> None:
    specs = task.graph.output_specs()
    largest = max(spec.nbytes for spec in (*task.graph.inputs, *specs))
    added = step.tx.one(
        "insert into task(public, job, number, state, executor, prio, affinity, graph, verify,"
        " verify_flops, flops, bytes_moved, memory_bound_bytes, min_memory_bytes, min_sandbox,"
        " slot_bytes, dtypes, waits, consumers_left, since_s, weight_version, lane, turn)"
        " values(?, ?, ?, 'waiting', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " (select dtypes | case when dtypes & ? = 0 then 0 else ? end from graph where hash = ?),"
        " ?, ?, ?, ?, ?, ?) returning id",
        (
            step.fresh_id("task"), job, task.index, executor, place[0], task.affinity, graph,
            task.verify, task.verify_flops, task.flops, task.bytes_moved, task.memory_bound_bytes,
            constraints["min_memory_bytes"], SANDBOX_RANK[constraints["sandbox"]], largest,
            *asking, graph, len(task.inputs), consumers, step.now_s, task.weight_version,
            *place[1:],
        ),
    )  # fmt: skip
    assert added is not None  # noqa: S101 - an insert with `returning` has a row
    number: int = added[0]
    for slot, (target, spec) in enumerate(zip(task.outputs, specs, strict=True)):
        step.tx.change(
            "insert into task_output values(?, ?, ?, ?, ?, ?, ?, null)",
            (number, slot, target.array, box_text(target.region), spec.dtype,
             json.dumps(spec.shape), spec.nbytes),
        )  # fmt: skip
    ready = 0
    for slot, (source, spec) in enumerate(zip(task.inputs, task.graph.inputs, strict=True)):
        if isinstance(source, ArrayRegion):
            ready += _add_region(step, job, executor, number, slot, source, spec.nbytes)
        else:
            ready += _add_produced(step, job, number, slot, source.task, source.output,
                                   spec.nbytes, speculative)  # fmt: skip
    _arrived(step, number, ready)


def _add_region(
    step: Step, job: str, executor: str, task: int, slot: int, source: ArrayRegion, nbytes: int
) -> int:
    box = box_text(source.region, source.rows)
    found = step.tx.one(
        "insert into region(job, array, box) values(?, ?, ?)"
        " on conflict(job, array, box) do update set array = excluded.array"
        " returning id, blob, stored",
        (job, source.array, box),
    )
    assert found is not None  # noqa: S101 - an upsert with `returning` has a row
    region, blob, stored = found
    packed = executor != "local" and stored
    step.tx.change(
        "insert into task_input values(?, ?, ?, null, null, ?, ?)",
        (task, slot, region, blob if packed else None, nbytes),
    )
    if packed:
        blobs.hold(step, blob, nbytes)
    elif executor != "local":
        step.emit(RunWork("prepare", region))
    return 1 if packed or executor == "local" else 0


def _add_produced(
    step: Step, job: str, task: int, slot: int, producer: int, output: int, nbytes: int,
    speculative: int,
) -> int:  # fmt: skip
    found = step.tx.one(
        "select t.id, t.state, t.depth, o.blob from task t join task_output o on o.task = t.id"
        " where t.job = ? and t.number = ? and o.slot = ?",
        (job, producer, output),
    )
    if found is None:
        raise LookupError(f"task {producer} of the plan comes after a task that needs it")
    source, state, depth, blob = found
    ahead = state == "checking" and depth < speculative
    there = blob is not None and (state in ("verified", "used") or ahead)
    step.tx.change(
        "insert into task_input values(?, ?, null, ?, ?, ?, ?)",
        (task, slot, source, output, blob if there else None, nbytes),
    )
    if there:
        blobs.hold(step, blob, nbytes)
        _deepen(step, task, state, depth)
    return 1 if there else 0


def collect_inputs(step: Step, task: int) -> None:
    """A task of a job that is taken up again has what is there; the rest is asked for."""
    rows = step.tx.rows(
        "select i.slot, i.region, i.nbytes, r.blob, r.stored, p.state, o.blob, t.executor"
        " from task_input i join task t on t.id = i.task left join region r on r.id = i.region"
        " left join task p on p.id = i.producer"
        " left join task_output o on o.task = i.producer and o.slot = i.producer_slot"
        " where i.task = ? order by i.slot",
        (task,),
    )
    ready = 0
    for slot, region, nbytes, packed, stored, state, made, executor in rows:
        if region is None:
            blob = made if state in ("verified", "used") else None
        elif executor != "local" and not stored:
            step.emit(RunWork("prepare", region))
            continue
        else:
            blob = packed if executor != "local" else None
        ready += blob is not None or (region is not None and executor == "local")
        if blob is not None:
            blobs.hold(step, blob, nbytes)
            step.tx.change(
                "update task_input set blob = ? where task = ? and slot = ?", (blob, task, slot)
            )
    _arrived(step, task, ready)


def _deepen(step: Step, task: int, state: str, depth: int) -> None:
    if state not in ("verified", "used"):
        step.tx.change("update task set depth = max(depth, ?) where id = ?", (depth + 1, task))


def _arrived(step: Step, task: int, count: int) -> None:
    """`count` inputs of a waiting task have come; with the last one it is ready."""
    found = step.tx.one(
        "update task set waits = waits - ? where id = ? and state = 'waiting'"
        " returning waits, executor",
        (count, task),
    )
    if found is not None and found[0] == 0:
        move(step, task, ("waiting",), "ready")
        step.emit(Wake(found[1]))


def note_region(step: Step, region: int, blob: str, nbytes: int) -> bool:
    """Remembers what a region held when it was read; False when it held something else before."""
    found = step.tx.one(
        "update region set blob = coalesce(blob, ?), nbytes = ? where id = ? returning blob",
        (blob, nbytes, region),
    )
    return found is None or found[0] == blob


def prepared(step: Step, region: int, blob: str, nbytes: int) -> bool:
    """A region is packed and its blob is on disk: tasks that wait for it go on.

    Returns:
        False when the array has changed since it was first read.
    """
    if not note_region(step, region, blob, nbytes):
        return False
    waiting = step.tx.rows(
        "select i.task, i.slot from task_input i join task t on t.id = i.task"
        " where i.region = ? and i.blob is null and t.state = 'waiting'",
        (region,),
    )
    if waiting:
        step.tx.change("update region set stored = 1 where id = ?", (region,))
    for task, slot in waiting:
        blobs.hold(step, blob, nbytes)
        step.tx.change(
            "update task_input set blob = ? where task = ? and slot = ?", (blob, task, slot)
        )
        _arrived(step, task, 1)
    if not waiting:
        # Whoever asked is gone (cancelled): take a reference and give it back, so the file goes.
        blobs.hold(step, blob, nbytes)
        blobs.release(step, blob)
    return True


def fill(step: Step, producer: TaskRow, slot: int, blob: str, nbytes: int) -> None:
    """Output `slot` of `producer` is there: waiting consumers take it, if they may by now."""
    if producer.state not in ("verified", "used"):
        allowed = step.tx.one("select speculative from job where id = ?", (producer.job,))
        if allowed is None or producer.depth >= allowed[0]:
            return
    waiting = step.tx.rows(
        "select i.task, i.slot from task_input i join task t on t.id = i.task"
        " where i.producer = ? and i.producer_slot = ? and i.blob is null"
        " and t.state = 'waiting'",
        (producer.id, slot),
    )
    for task, own_slot in waiting:
        blobs.hold(step, blob, nbytes)
        step.tx.change(
            "update task_input set blob = ? where task = ? and slot = ?", (blob, task, own_slot)
        )
        _deepen(step, task, producer.state, producer.depth)
        _arrived(step, task, 1)


def inputs_verified(tx: Tx, task: int) -> bool:
    """Whether every input comes from a verified result or from the job's own arrays."""
    return tx.one(
        "select 1 from task_input i join task p on p.id = i.producer"
        " where i.task = ? and p.state not in ('verified', 'used')",
        (task,),
    ) is None  # fmt: skip


def release_inputs(step: Step, task: int) -> None:
    """The task is over: its inputs may go."""
    held = step.tx.rows(
        "select slot, region, blob from task_input where task = ? and blob is not null", (task,)
    )
    step.tx.change("update task_input set blob = null where task = ?", (task,))
    for _, region, blob in held:
        blobs.release(step, blob)
        if region is not None:
            step.tx.change(
                "update region set stored = 0 where id = ? and not exists"
                " (select 1 from task_input where region = ? and blob is not null)",
                (region, region),
            )


def release_inputs_unless_judged(step: Step, task: int) -> None:
    """The same, unless a further result of the task still waits for the validator's word."""
    waiting = step.tx.one("select 1 from lease where task = ? and state = 'uploaded'", (task,))
    decided = step.tx.one("select 1 from task where id = ? and state = 'used'", (task,))
    if waiting is None and decided is not None:
        release_inputs(step, task)
