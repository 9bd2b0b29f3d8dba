"""Work items for the workers, built from rows.

Owns: the translation of an instruction of the state machine (`RunWork`) into what a worker is told.
Must not: change a row. What a row no longer asks for gives no item, so an instruction that comes
late is harmless.
"""

from __future__ import annotations

import json
from typing import Any, cast

from msgspec import structs

from server_stub.node.state import arrays, biases, leases, tasks, tolerances
from server_stub.node.state.words import RunWork
from server_stub.node.store.protocol import Tx
from server_stub.node.work import (
    ArrayFile,
    BlobInput,
    BlobOutput,
    Box,
    Check,
    Compare,
    Compute,
    Fold,
    Input,
    Output,
    Prepare,
    Recompute,
    RegionInput,
    RegionOutput,
    Work,
)

__all__ = ["array_file", "build", "build_packed", "work_id"]


def work_id(effect: RunWork) -> str:
    """One name for one piece of work: the same instruction twice is one item."""
    return f"{effect.purpose}.{effect.task}.{effect.lease or '-'}"


def array_file(row: arrays.ArrayRow) -> ArrayFile:
    """Where an array's bytes are."""
    return ArrayFile(
        kind=cast(Any, row.kind),
        path=row.path,
        dtype=row.dtype,
        shape=row.shape,
        member=row.member,
        offset_bytes=row.offset_bytes,
    )


def _box(text: str) -> Box:
    region = tasks.read_box(text)
    return Box(region.start, region.stop, tasks.read_picked(text))


def build(tx: Tx, effect: RunWork) -> Work | None:
    """The item for an instruction, or None when nobody wants it any more."""
    if effect.purpose == "prepare":
        return _prepare(tx, effect)
    task = tasks.load(tx, effect.task)
    if task is None or task.state in ("cancelled", "failed"):
        return None
    row = tx.one(
        "select g.data, j.numeric_class, j.inputs, j.id from job j join graph g on g.hash = ?"
        " where j.id = ?",
        (task.graph, task.job),
    )
    if row is None:
        return None
    graph, numeric_class, array_ids, job = row
    work = work_id(effect)
    outputs = _outputs(tx, task.id, job)
    committed = _committed(tx, task, effect.lease) if effect.lease else ()
    if effect.purpose in ("check", "compare", "fold") and not committed:
        # The lease is over (its job was ended, and goes on): there is nothing to look at.
        return None
    if effect.purpose == "fold":
        return Fold(work, committed, outputs)
    inputs = _inputs(tx, task.id, json.loads(array_ids))
    if effect.purpose == "compare":
        second = _committed(tx, task, effect.second)
        if not second:
            return None
        return Compare(
            work, graph, numeric_class, committed, second, task.flops, inputs,
            tolerances.for_judging(tx, task.job, task.graph, task.number),
        )  # fmt: skip
    if effect.purpose == "compute":
        lease = leases.load(tx, effect.lease)
        if lease is None or lease.state != "issued":
            return None
        return Compute(
            work, graph, numeric_class, inputs, outputs, cast(Any, task.verify),
            task.memory_bound_bytes, task.flops,
        )  # fmt: skip
    if effect.purpose == "check":
        return Check(work, graph, numeric_class, inputs, committed, outputs, fold=True)
    judging = effect.purpose == "judge"
    secret, bias = biases.for_judging(tx, task.job, task.graph, effect.lease)
    return Recompute(
        work, graph, numeric_class, inputs, committed, outputs, fold=not judging,
        repair=not judging, memory_bound_bytes=task.memory_bound_bytes, flops=task.flops,
        tolerance=tolerances.for_judging(tx, task.job, task.graph, task.number),
        secret=secret, bias=bias,
    )  # fmt: skip


def build_packed(tx: Tx, effect: RunWork) -> Work | None:
    """The item for a machine that need not see the node's files: it reads and makes blobs only.

    Computing keeps every output as a blob, and checks nothing: that is for others. A check or a
    recomputation only judges: nothing is written. None where `build` says so, or where an input
    is not packed.
    """
    item = build(tx, effect)
    if isinstance(item, (Compute, Check, Recompute, Compare)):
        rows = tx.rows("select blob, nbytes from task_input where task = ? order by slot",
                       (effect.task,))  # fmt: skip
        if any(blob is None for blob, _ in rows):
            return None
        inputs = tuple(
            BlobInput(blob, nbytes, *_type_of(source))
            for (blob, nbytes), source in zip(rows, item.inputs, strict=True)
        )
        outputs = getattr(item, "outputs", ())
        kept = tuple(BlobOutput(output.dtype, output.shape) for output in outputs)
        if isinstance(item, Compute):
            return structs.replace(item, inputs=inputs, outputs=kept, verify="recompute")
        if isinstance(item, Compare):
            return structs.replace(item, inputs=inputs)
        if isinstance(item, Recompute):
            return structs.replace(item, inputs=inputs, outputs=kept, fold=False, repair=False)
        return structs.replace(item, inputs=inputs, outputs=kept, fold=False)
    return None


def _type_of(source: Input) -> tuple[str, tuple[int, ...]]:
    if isinstance(source, BlobInput):
        return source.dtype, source.shape
    box = source.box
    shape = tuple(stop - start for start, stop in zip(box.start, box.stop, strict=True))
    if box.rows:
        shape = (len(box.rows), *shape[1:])
    return source.array.dtype, shape


def _prepare(tx: Tx, effect: RunWork) -> Work | None:
    row = tx.one(
        "select r.array, r.box, j.inputs from region r join job j on j.id = r.job"
        " where r.id = ? and j.state = 'running'",
        (effect.task,),
    )
    if row is None:
        return None
    number, box, array_ids = row
    source = _region_input(tx, json.loads(array_ids)[number], box)
    return None if source is None else Prepare(work_id(effect), source, store=True)


def _region_input(tx: Tx, array: str, box: str, blob: str = "") -> RegionInput | None:
    row = arrays.load(tx, array)
    return None if row is None else RegionInput(array_file(row), _box(box), blob)


def _inputs(tx: Tx, task: int, array_ids: list[str]) -> tuple[Input, ...]:
    """Regions are read from their array even where they are packed: the lab trusts its own file.

    A blob's dtype and shape are those of the producing output.
    """
    inputs: list[Input] = []
    rows = tx.rows(
        "select i.blob, i.nbytes, r.array, r.box, r.blob, o.dtype, o.shape, i.producer"
        " from task_input i left join region r on r.id = i.region"
        " left join task_output o on o.task = i.producer and o.slot = i.producer_slot"
        " where i.task = ? order by i.slot",
        (task,),
    )
    for blob, nbytes, array, box, region_blob, dtype, shape, producer in rows:
        if producer is None:
            source = _region_input(tx, array_ids[array], box, region_blob or "")
            if source is not None:
                inputs.append(source)
        else:
            inputs.append(BlobInput(blob, nbytes, dtype, tuple(json.loads(shape))))
    return tuple(inputs)


def _outputs(tx: Tx, task: int, job: str) -> tuple[Output, ...]:
    outputs: list[Output] = []
    for array, box, dtype, shape_text in tx.rows(
        "select array, box, dtype, shape from task_output where task = ? order by slot", (task,)
    ):
        shape = tuple(json.loads(shape_text))
        if array is None:
            outputs.append(BlobOutput(dtype, shape))
            continue
        row = tx.one("select id from array where job = ? and number = ?", (job, array))
        place = None if row is None else arrays.load(tx, row[0])
        if place is not None:
            outputs.append(RegionOutput(array_file(place), _box(box), dtype, shape))
    return tuple(outputs)


def _committed(tx: Tx, task: tasks.TaskRow, lease: str) -> tuple[BlobInput, ...]:
    rows = tx.rows(
        "select v.blob, v.nbytes, o.dtype, o.shape from vote v join task_output o on o.task = ?"
        " and o.slot = v.slot where v.lease = ? and v.held = 1 order by v.slot",
        (task.id, lease),
    )
    return tuple(
        BlobInput(blob, nbytes, dtype, tuple(json.loads(shape)))
        for blob, nbytes, dtype, shape in rows
    )
