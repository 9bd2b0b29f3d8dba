"""A job that failed or was cancelled goes on when it is submitted again.

Owns: whether it can: its unfinished results are still there, its plan is still what the planner
makes of it, and its executor has the memory for that plan. Else the submission starts anew. Must
not: judge what was verified (see `state.ended`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from gpugoblin.errors import NodeError
from gpugoblin.graph.serialize import decode
from gpugoblin.plan.spec import Plan
from gpugoblin.wire.messages.job import JobInfo, JobSubmit
from gpugoblin.wire.messages.task import Constraints
from server_stub.node import results, room
from server_stub.node.node import Node
from server_stub.node.planning import read_limits
from server_stub.node.state import ended, jobs
from server_stub.node.state.words import Step
from server_stub.node.training import rows as trainings
from server_stub.node.training.building import read_plan

__all__ = ["retry", "take_up"]


async def take_up(node: Node, owner: str, message: JobSubmit, content: str) -> JobInfo | None:
    """Goes on with the ended job of this name and content; None where there is none.

    The workers' writing of results that nobody wants any more is waited for: it must not fall into
    those that are computed now.

    Raises:
        StoreError: `array_exists`, `array_not_replaced`: a result's place is taken.
        NodeError: `quota_disk`, `quota_tasks`: of the job's owner; `results_do_not_fit`.
    """
    kept = await node.store.read(lambda tx: ended.kept(tx, owner, message.name, content))
    if kept is None:
        return None
    overwrites = [save.overwrite for save in message.outputs]
    return await _carry_on(
        node, kept, message.executor, message.constraints, message.priority, overwrites
    )


async def retry(node: Node, job: str) -> JobInfo:
    """Goes on with an ended job as it was submitted.

    Raises:
        NodeError: `unknown_job`, `job_not_kept`. All that `take_up` raises.
    """
    row = await node.store.read(lambda tx: jobs.submitted(tx, job))
    kept = await node.store.read(lambda tx: ended.kept(tx, row.owner, row.name, row.content))
    if kept is not None and kept.job == job:
        overwrites = [output.overwrite for output in kept.outputs]
        found = await _carry_on(
            node, kept, kept.executor, row.constraints, row.priority, overwrites
        )
        if found is not None:
            return found
    raise NodeError("job_not_kept", job=row.name or job)


async def _carry_on(
    node: Node,
    kept: ended.Kept,
    executor: str,
    constraints: Constraints,
    priority: int,
    overwrites: Sequence[bool],
) -> JobInfo | None:
    plan = await _plan(node, executor, kept)
    if plan is None or not await asyncio.to_thread(results.are_whole, kept.outputs, overwrites):
        return None
    await node.work.drained(kept.unused)

    def resume(step: Step) -> bool:
        # Where the disk could not reserve it, what is missing of the results needs its room again.
        unfinished = [row for row in kept.outputs if not row.complete and row.kind != "zarr"]
        room.require(
            step.tx, node.settings,
            [(path := Path(row.path), room.missing_bytes(path, row.nbytes)) for row in unfinished],
        )  # fmt: skip
        return ended.resume(step, kept.job, constraints, priority, overwrites)

    if not await node.handle(resume):
        return None
    node.planner.keep(kept.job, plan)
    return await node.store.read(lambda tx: jobs.info(tx, kept.job))


async def _plan(node: Node, executor: str, kept: ended.Kept) -> Plan | None:
    """The plan of its verified tasks, if it can be carried on here and now."""
    if executor not in ("auto", kept.executor):
        return None
    settings = node.settings
    if kept.executor == "local":
        able = settings.local_engine
    elif kept.executor == "ray":
        able = bool(settings.ray_address)
    else:
        able = settings.lab and settings.confirmed_no_confidential_data
    if not able:
        return None
    training = await node.store.read(lambda tx: trainings.load(tx, kept.job))

    def make() -> Plan:
        if training is not None:
            return read_plan(training.program, training.arrays)
        return node.planner.make(decode(kept.graph), read_limits(kept.limits), kept.block_axis)

    plan = await asyncio.to_thread(make)
    fleet = await node.executors[kept.executor].capabilities()
    fits = plan.summary().memory_bound_bytes <= fleet.memory_bytes
    return plan if fits and plan.count == kept.count else None
