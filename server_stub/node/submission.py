"""From a submitted graph to a running job: checked, planned, admitted, begun.

Owns: everything that can be said against a job before it starts, each with its figure. Nothing is
stored until all of it has passed. Must not: change a running job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.graph.classes import in_class
from gpugoblin.graph.dtypes import needs_of
from gpugoblin.graph.exact import not_exact
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import decode, encode, graph_hash
from gpugoblin.hashing import JOB, digest
from gpugoblin.ids import GraphHash, JobId
from gpugoblin.plan.spec import Plan
from gpugoblin.wire.messages.job import (
    JobInfo,
    JobSubmit,
    LostWork,
    OutputSave,
    PlanReply,
    VerifiedBy,
)
from server_stub.node import choosing, leftovers, results, resuming, room
from server_stub.node.node import Node
from server_stub.node.planning import operators_of, write_limits
from server_stub.node.state import arrays, jobs, places, quotas, retention
from server_stub.node.state import room as promises
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx
from server_stub.node.work import Describe, Described

__all__ = [
    "Claim",
    "admitted",
    "begin",
    "describe_again",
    "planned",
    "same_job",
    "submit",
]


async def submit(node: Node, owner: str, message: JobSubmit, *, local: bool) -> JobInfo:
    """Starts a job, attaches to one, takes up one that failed or was cancelled, or (dry run) only
    says how it would go.

    Args:
        local: the caller is on this machine and may name files.

    Raises:
        GraphError, PlanError, NodeError, StoreError: what is wrong with it, by code.
    """
    choosing.require_offered(message.constraints)
    message, graph = await asyncio.to_thread(_in_class, message)
    results.check_places(message.outputs, node.settings.state, local=local)
    rows = await node.store.read(lambda tx: _inputs(tx, owner, message, graph))
    _check_class(message, graph)
    await asyncio.gather(*(describe_again(node, row) for row in rows))
    choice = await choosing.choose(node, message, graph, owner)
    content = _content(message, graph, rows)
    if message.dry_run:
        return planned(node, owner, message.name, graph, content, choice.reply)
    attached = await node.store.read(lambda tx: same_job(tx, owner, message.name, content))
    if attached is not None:
        if any(save.retention == "durable" for save in message.outputs):
            await node.handle(lambda step: retention.make_durable(step, attached))
        return await node.store.read(lambda tx: jobs.info(tx, attached, attached=True))
    resumed = await resuming.take_up(node, owner, message, content)
    if resumed is not None:
        return resumed
    blob_bytes = _blob_bytes(node, choice)
    async with admitted(
        node, owner, message.name, message.outputs, choice.plan, blob_bytes
    ) as claim:
        return await _begin(node, owner, message, graph, content, choice, claim)


def _in_class(message: JobSubmit) -> tuple[JobSubmit, Graph]:
    """The graph with the operands of its products rounded as the class says, from here on."""
    graph = decode(message.graph)
    rounded = in_class(graph, message.numeric_class)
    if rounded is graph:
        return message, graph
    return msgspec.structs.replace(message, graph=encode(rounded)), rounded


def _inputs(tx: Tx, owner: str, message: JobSubmit, graph: Graph) -> list[ArrayRow]:
    """The arrays that the job names, as the graph wants them."""
    specs, outputs = graph.inputs, graph.output_specs()
    if len(specs) != len(message.inputs) or len(outputs) != len(message.outputs):
        raise NodeError(
            "inputs_mismatch", wanted=len(specs), outputs=len(outputs), found=len(message.inputs),
            saves=len(message.outputs),
        )  # fmt: skip
    rows = [arrays.of_owner(tx, owner, array) for array in message.inputs]
    for number, (row, spec) in enumerate(zip(rows, specs, strict=True)):
        if (row.dtype, row.shape) != (spec.dtype, spec.shape):
            raise NodeError(
                "array_mismatch", number=number, wanted=spec,
                found=f"{row.dtype}[{', '.join(map(str, row.shape))}]",
            )  # fmt: skip
        retention.require_kept(row)
        if not row.complete:
            raise NodeError(
                "array_incomplete", array=row.id, stored_bytes=row.stored_bytes,
                expected_bytes=row.nbytes,
            )  # fmt: skip
    return rows


def _check_class(message: JobSubmit, graph: Graph) -> None:
    if message.assurance != "full":
        raise NodeError("audited_not_offered")
    if message.numeric_class == "exact":
        culprit = not_exact(graph)
        if culprit is not None:
            raise NodeError("class_not_for_graph", operator=culprit)


async def describe_again(node: Node, row: ArrayRow) -> None:
    """Opens the file of an input once more: it may have been cut or changed since.

    Raises:
        StoreError: `array_unreadable`, `array_truncated` and the like.
        NodeError: `array_differs`.
    """
    if row.kind == "raw":
        size = await asyncio.to_thread(_size, row.path)
        if size < row.offset_bytes + row.nbytes:
            raise NodeError(
                "array_differs", path=row.path, found=f"{size} bytes",
                wanted=f"{row.offset_bytes + row.nbytes} bytes",
            )  # fmt: skip
        return
    item = Describe(f"describe.{row.id}", row.kind, row.path, row.member)  # type: ignore[arg-type]
    reply = await node.pool.run(item)
    if not isinstance(reply, Described):
        raise TypeError(f"a worker answered Describe with {type(reply).__name__}")
    found = reply.array
    if (found.dtype, found.shape) != (row.dtype, row.shape):
        raise NodeError(
            "array_differs", path=row.path, found=f"{found.dtype}{list(found.shape)}",
            wanted=f"{row.dtype}{list(row.shape)}",
        )  # fmt: skip


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _content(message: JobSubmit, graph: Graph, rows: list[ArrayRow]) -> str:
    """The name of the computation: graph, inputs, class, assurance, and where results go."""
    parts = [
        str(graph_hash(graph)), message.numeric_class, message.assurance, str(message.block_axis),
        *(row.fingerprint for row in rows),
        *(f"{save.format}:{save.path}" for save in message.outputs),
    ]  # fmt: skip
    return digest(JOB, [f"{len(part)}:{part}".encode() for part in parts])


def same_job(tx: Tx, owner: str, name: str | None, content: str) -> str | None:
    """The job of this owner with that name and content, if it runs, or is done and has its
    results."""
    if name is None:
        return None
    row = tx.one(
        "select id from job where owner = ? and name = ? and content = ?"
        " and state in ('running', 'done')",
        (owner, name, content),
    )
    return None if row is None or retention.is_collected(tx, row[0]) else str(row[0])


@dataclass(frozen=True, slots=True)
class Claim:
    """The room on the disk that a submission was promised, by its note, and how much of it is for
    blobs."""

    note: str
    blob_bytes: int


@asynccontextmanager
async def admitted(
    node: Node, owner: str, name: str | None, saves: Sequence[OutputSave], plan: Plan,
    blob_bytes: int,
) -> AsyncIterator[Claim]:  # fmt: skip
    """The owner's quota, if need be without the owner's caches; then room on the disk, if need be
    that of everybody's caches and of what ended jobs keep. The room is the submission's until
    `begin` has made its job, or something went wrong.

    Args:
        blob_bytes: of blobs at a time: on the grid, a window of packed inputs and returned outputs.

    Raises:
        NodeError: `quota_disk`, `quota_tasks`, `results_do_not_fit`.
    """
    kept = [spec.nbytes for save, spec in zip(saves, plan.outputs, strict=True)
            if save.format == "node"]  # fmt: skip
    more = quotas.Use(sum(kept), plan.count)
    try:
        await node.store.read(lambda tx: quotas.require_room(tx, owner, more, name))
    except NodeError as error:
        if error.code != "quota_disk" or not await leftovers.drop_caches(node, owner):
            raise
        await node.store.read(lambda tx: quotas.require_room(tx, owner, more, name))
    wanted = [
        (node.settings.arrays_root if save.format == "node" else Path(save.path).parent,
         spec.nbytes)
        for save, spec in zip(saves, plan.outputs, strict=True)
    ]  # fmt: skip
    wanted.append((node.settings.state, blob_bytes))
    note = await _claim(node, wanted)
    try:
        yield Claim(note, blob_bytes)
    except BaseException:
        await node.handle(lambda step: promises.drop(step, note))
        raise


async def _claim(node: Node, wanted: Sequence[tuple[Path, int]]) -> str:
    while True:
        try:
            return await node.handle(lambda step: room.claim(step, node.settings, wanted))
        except NodeError as error:
            if error.code != "results_do_not_fit" or not await leftovers.make_room(node):
                raise


def _blob_bytes(node: Node, choice: choosing.Choice) -> int:
    if choice.executor == "local" or choice.plan.count == 0:
        return 0
    window = min(choice.plan.count, node.settings.window_tasks)
    return int(choice.moved_bytes * window // choice.plan.count)


async def _begin(
    node: Node, owner: str, message: JobSubmit, graph: Graph, content: str,
    choice: choosing.Choice, claim: Claim,
) -> JobInfo:  # fmt: skip
    new = jobs.NewJob(
        owner=owner, name=message.name, graph=encode(graph), graph_hash=str(graph_hash(graph)),
        operators=operators_of(graph), dtypes=needs_of(graph).mask(), content=content,
        inputs=message.inputs, outputs=(),
        numeric_class=message.numeric_class, assurance=message.assurance,
        executor=choice.executor, constraints=message.constraints, priority=message.priority,
        block_axis=message.block_axis, limits=write_limits(choice.limits),
        speculative=node.settings.speculative_depth, plan=choice.reply, parent=message.parent,
    )  # fmt: skip
    return await begin(node, new, message.outputs, choice.plan, claim)


async def begin(
    node: Node, new: jobs.NewJob, saves: Sequence[OutputSave], plan: Plan, claim: Claim,
    also: Callable[[Step, str], None] = lambda _step, _job: None,
) -> JobInfo:  # fmt: skip
    """Makes the files of the outputs, then the job, or attaches to the one that is there.

    Args:
        new: without its outputs.
        claim: the room that was promised to it.
        also: what else is written for a new job, in the same transaction.

    Raises:
        NodeError: `job_name_taken`. StoreError: as `results.create`.
    """
    finals = [save.path for save in saves if save.format != "node"]
    note = await node.handle(lambda step: places.note(step, finals)) if finals else ""
    try:
        made = await asyncio.to_thread(
            results.create, node.settings.arrays_root, new.owner, saves, plan.outputs,
            new.plan.tile,
        )  # fmt: skip
    except GoblinError:
        await leftovers.forget(node, note)
        raise
    whole = replace(new, outputs=made)

    def write(step: Step) -> tuple[str, bool]:
        job, attached = jobs.submit(step, whole)
        if attached:
            promises.drop(step, claim.note)
        else:
            places.drop(step, note)
            promises.settle(step, claim.note, job, claim.blob_bytes)
            also(step, job)
        return job, attached

    try:
        job, attached = await node.handle(write)
    except GoblinError:
        await _take_back(node, made, note)
        raise
    if attached:
        await _take_back(node, made, note)
    else:
        node.planner.keep(job, plan)
    return await node.store.read(lambda tx: jobs.info(tx, job, attached=attached))


async def _take_back(node: Node, made: list[arrays.NewArray], note: str) -> None:
    await asyncio.to_thread(_discard_all, made)
    await leftovers.forget(node, note)


def _discard_all(made: list[arrays.NewArray]) -> None:
    for new in made:
        results.discard_new(new)


def planned(
    node: Node, owner: str, name: str | None, graph: Graph, content: str, plan: PlanReply
) -> JobInfo:
    """What a dry run answers: nothing is stored."""
    return JobInfo(
        job=JobId("job_planned"), name=name or "planned", owner=owner, state="planned",
        graph=GraphHash(str(graph_hash(graph))), content=content, attached=False,
        tasks=plan.tasks, verified=0, used=0, leased=0, checking=0, verified_by=VerifiedBy(),
        lost=LostWork(), credits=0.0, bytes_sent=0, bytes_received=0,
        created_s=node.clock.wall_s(), started_s=None, finished_s=None, outputs=(), plan=plan,
    )  # fmt: skip
