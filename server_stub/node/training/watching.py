"""Looking at the numbers of rounds: what is not finite, and when to stop early.

Owns: the decisions that need a loss, of which a few bytes are read from the results once their
round is verified. Must not: touch weights or gradients: the step itself keeps the last good ones.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec
import numpy as np

from gpugoblin.errors import NodeError
from gpugoblin.wire.messages.training import EvaluationSubmit, TrainingSubmit
from server_stub.node import arrays as files
from server_stub.node.items import array_file
from server_stub.node.state import arrays, jobs
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Store
from server_stub.node.training import rows
from server_stub.node.work import Box

__all__ = ["Host", "Watcher", "no_better"]

T = TypeVar("T")

AT_ONCE: Final = 4096
"""Rounds that are looked at together."""


class Host(Protocol):
    """What is asked of the node."""

    @property
    def store(self) -> Store: ...

    async def handle(self, handler: Callable[[Step], T]) -> T: ...


def no_better(losses: Sequence[float], patience: int, least: float) -> bool:
    """Whether the last `patience` losses are all no better than the best before, by `least`."""
    if patience == 0 or len(losses) <= patience:
        return False
    best = min(losses[:-patience])
    return min(losses[-patience:]) > best - least


class Watcher:
    """Looks at rounds that are done. `wake` is set when something has changed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.wake = asyncio.Event()

    async def look(self) -> None:
        """Looks at every round that nobody has looked at."""
        for job in await self._host.store.read(rows.running):
            await self._look_at(job)

    async def last_look(self, job: str) -> bool:
        """Looks at the last rounds of a job that is about to end well; False if it may not."""
        if await self._host.store.read(lambda tx: rows.load(tx, job)) is None:
            return True
        while job in await self._host.store.read(rows.running):
            await self._look_at(job)
        return await self._host.store.read(lambda tx: jobs.running_state(tx, job))

    async def _look_at(self, job: str) -> None:
        def read(tx: Any) -> Any:
            return rows.load(tx, job), arrays.of_job(tx, job)

        row, results = await self._host.store.read(read)
        if row is None or len(results) < 2:
            return
        message = msgspec.json.decode(row.program, type=TrainingSubmit)
        last = min(row.done, row.seen + AT_ONCE)
        losses = await asyncio.to_thread(_read, results[0], row.seen, last)
        norms = await asyncio.to_thread(_read, results[1], row.seen, last)
        bad = ~np.isfinite(losses) | ~np.isfinite(norms).all(axis=1)
        if bad.any():
            place = int(np.argmax(bad))
            error = _not_finite(message, row.first_step + row.seen + place, norms[place])
            # Not marked as seen: taken up again, the run fails of the same.
            await self._host.handle(partial(_fail, job=job, error=error))
            return
        words = ""
        wanted = message.evaluation
        if wanted is not None and wanted.patience:
            # One round later than its evaluation a score is surely there; until then it waits.
            words = await self._verdict(message, wanted, results[2], row)
        await self._host.handle(partial(_seen, job=job, rounds=last, words=words))

    async def _verdict(
        self, message: TrainingSubmit, wanted: EvaluationSubmit, result: ArrayRow,
        row: rows.TrainingRow,
    ) -> str:  # fmt: skip
        scored = await self._host.store.read(
            lambda tx: tx.rows("select start0 from fold where job = ? and array = 2", (row.job,))
        )
        known = {start for (start,) in scored}
        count = next((n for n in range(row.done // wanted.every + 1) if n not in known), 0)
        losses = await asyncio.to_thread(_read, result, 0, count)
        found = [float(one) for one in losses]
        for end in range(1, len(found) + 1):
            if no_better(found[:end], wanted.patience, wanted.least):
                best = int(np.argmin(found[: end - wanted.patience]))
                turn = row.first_step + (best + 1) * wanted.every
                return f"no better evaluation since {_turn(message)} {turn} ({found[best]:.6g})"
        return ""


def _read(row: ArrayRow, first: int, last: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    tail = row.shape[1:]
    if first >= last:
        return np.zeros((0, *tail), np.float32)
    box = Box((first, *(0 for _ in tail)), (last, *tail))
    data = files.read_box(array_file(row), box)
    return np.frombuffer(bytes(data), np.float32).reshape(last - first, *tail)


def _not_finite(
    message: TrainingSubmit, step: int, norms: np.ndarray[Any, np.dtype[np.float32]]
) -> NodeError:
    names = [one.name for one in sorted(
        (one for one in message.tensors if one.kind == "parameter"), key=lambda one: one.offset
    )]  # fmt: skip
    where = [name for name, norm in zip(names, norms, strict=False) if not math.isfinite(norm)]
    shown = ", ".join(where[:3]) + (f" and {len(where) - 3} more" if len(where) > 3 else "")
    return NodeError(
        "training_not_finite", turn=_turn(message), step=step,
        what=f"the gradient of {shown}" if where else "the loss",
    )  # fmt: skip


def _turn(message: TrainingSubmit) -> str:
    """What its steps are."""
    return "step" if message.local is None else "round"


def _fail(step: Step, job: str, error: NodeError) -> None:
    jobs.fail(step, job, error.code, None, str(error))


def _seen(step: Step, job: str, rounds: int, words: str) -> None:
    rows.seen(step, job, rounds)
    if words and jobs.stop(step, job):
        rows.end_early(step, job, words)
