"""The researcher's routes for trainings.

Owns: `/v1/trainings`: begin one, how it stands, its rounds, its weights; and `/v1/pace`. Must not:
decide.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gpugoblin.errors import NodeError
from gpugoblin.ids import fresh_id
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.units import MIB
from gpugoblin.wire.messages.training import (
    CarriedTensor,
    LocalStepsAsk,
    RoundRow,
    TrainingInfo,
    TrainingRounds,
    TrainingSubmit,
)
from server_stub.node.http import replies
from server_stub.node.node import Node
from server_stub.node.state import blobs, jobs, sharing
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx
from server_stub.node.training import building, pacing, rows, submission
from server_stub.node.users import User

__all__ = ["Trainings"]

PIECE_BYTES: Final = MIB
MAX_ROUNDS: Final = 1000


class Trainings:
    """The handlers, for the door of clients."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def submit(self, request: Request, user: User) -> Response:
        message = await replies.read_message(request, TrainingSubmit)
        info = await submission.submit(self._node, user.name, message)
        return replies.reply(info, 200 if info.attached or message.dry_run else 201)

    async def pace(self, request: Request, user: User) -> Response:
        """How many local steps a round should make, by what is known now."""
        message = await replies.read_message(request, LocalStepsAsk)
        return replies.reply(await pacing.pace(self._node, user.name, message))

    async def show(self, request: Request, user: User) -> Response:
        name = request.path_params["job"]

        def look(tx: Tx) -> TrainingInfo:
            return _info(tx, sharing.readable(tx, user, name))

        return replies.reply(await self._node.store.read(look))

    async def rounds(self, request: Request, user: User) -> Response:
        """Rounds `first` to `first + count` (at most 1,000) that are done."""
        name = request.path_params["job"]
        first = replies.integer(request, "first", 0, 0, 1 << 40)
        count = replies.integer(request, "count", MAX_ROUNDS, 1, MAX_ROUNDS)

        def look(tx: Tx) -> TrainingRounds:
            row = _row(tx, sharing.readable(tx, user, name))
            plan = building.read_plan(row.program, row.arrays)
            last = min(row.done, first + count)
            return TrainingRounds(tuple(_round(tx, row, plan, n) for n in range(first, last)))

        return replies.reply(await self._node.store.read(look))

    async def weights(self, request: Request, user: User) -> Response:
        """The bytes of one carried tensor after so many steps."""
        name = request.path_params["job"]
        version = replies.integer(request, "version", 0, 0, 1 << 40)
        number = replies.integer(request, "number", 0, 0, 8191)
        node, lent = self._node, fresh_id("lent")

        def lend(step: Step) -> str:
            row = _row(step.tx, sharing.readable(step.tx, user, name))
            found = rows.carried_blobs(step.tx, row.job, version)
            if number >= len(found):
                raise NodeError(
                    "parameter_invalid", name="number", value=number, reason="too large"
                )
            blobs.hold(step, found[number], node.blobs.nbytes(found[number]))
            step.tx.change("insert into lent values(?, ?)", (lent, found[number]))
            return found[number]

        blob = await node.handle(lend)
        size = node.blobs.nbytes(blob)
        headers = {"content-length": str(size)}
        stream = _stream(node, lent, blob)
        return StreamingResponse(stream, media_type="application/octet-stream", headers=headers)


async def _stream(node: Node, lent: str, blob: str) -> AsyncIterator[bytes]:
    def give_back(step: Step) -> None:
        if step.tx.change("delete from lent where id = ?", (lent,)):
            blobs.release(step, blob)

    try:
        size = node.blobs.nbytes(blob)
        descriptor = os.open(node.blobs.path(blob), os.O_RDONLY | os.O_CLOEXEC)
        try:
            for offset in range(0, size, PIECE_BYTES):
                yield await asyncio.to_thread(os.pread, descriptor, PIECE_BYTES, offset)
        finally:
            os.close(descriptor)
    finally:
        await asyncio.shield(node.persist(give_back))


def _row(tx: Tx, job: str) -> rows.TrainingRow:
    row = rows.load(tx, job)
    if row is None:
        raise NodeError("not_a_training", job=job)
    return row


def _info(tx: Tx, job: str) -> TrainingInfo:
    row = _row(tx, job)
    message = msgspec.json.decode(row.program, type=TrainingSubmit)
    plan = building.read_plan(row.program, row.arrays)
    carried = tuple(
        CarriedTensor(kind, spec.dtype, spec.shape, spec.nbytes, slot)  # type: ignore[arg-type]
        for (kind, slot), spec in zip(plan.parts, plan.carried, strict=True)
    )
    info = jobs.info(tx, job)
    evaluation = message.evaluation
    return TrainingInfo(
        job=info, steps=message.steps, first_step=row.first_step, done=row.done,
        version=row.first_step + row.done, versions=tuple(rows.versions(tx, job)),
        stages=plan.stages,
        batch=message.batch, micro=message.micro, every=evaluation.every if evaluation else 0,
        tensors=message.tensors, carried=carried, optimizer=message.optimizer, seed=message.seed,
        shuffle=message.shuffle, content=info.content, ended_early=row.ended_early,
        local_steps=message.local.steps if message.local else 1,
        chosen=message.local.chosen if message.local else None,
    )  # fmt: skip


def _round(tx: Tx, row: rows.TrainingRow, plan: RoundsPlan, turn: int) -> RoundRow:
    """What happened in one round, from the rows of its tasks and leases."""
    first, last = plan.first_task(turn), plan.step_task(turn)
    tasks = tx.rows(
        "select id, graph, verified_by, since_s from task where job = ? and number between ? and ?",
        (row.job, first, last),
    )
    leases = tx.rows(
        "select l.owner, l.device, l.state, l.issued_s, t.bytes_moved, t.graph from lease l"
        " join task t on t.id = l.task where t.job = ? and t.number between ? and ?",
        (row.job, first, last),
    )
    ends = tx.rows(
        "select sum(i.nbytes), 0 from task_input i join task t on t.id = i.task"
        " where t.job = ? and t.number between ? and ?",
        (row.job, first, last),
    )
    came = tx.rows(
        "select sum(o.nbytes), 0 from task_output o join task t on t.id = o.task"
        " where t.job = ? and t.number between ? and ?",
        (row.job, first, last),
    )
    in_time = rows.records(tx, row.job, turn, 1).get(turn, "") if plan.lateness else ""
    lost = [lease for lease in leases if lease[2] in ("expired", "abandoned", "late", "rejected")]
    return RoundRow(
        step=row.first_step + turn,
        contributors=len({(lease[0], lease[1]) for lease in leases if lease[2] == "accepted"}),
        verified=sum(task[2] is not None for task in tasks),
        by_recompute=sum(task[2] == "recompute" for task in tasks),
        by_agreement=sum(task[2] in ("agreement", "equality") for task in tasks),
        redone=len(lost),
        refused=sum(lease[2] == "rejected" for lease in lost),
        bytes_in=int(ends[0][0] or 0),
        bytes_out=int(came[0][0] or 0),
        began_s=min((lease[3] for lease in leases), default=0.0),
        ended_s=max((task[3] for task in tasks), default=0.0),
        local_steps=plan.span,
        in_time=in_time,
    )
