"""What a lab node does by itself: tasks from plans, time-outs, and tidying up.

Owns: the loops and their rhythm. Must not: hold a rule of what is overdue or unwanted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gpugoblin.errors import GoblinError
from server_stub.node import leftovers, results
from server_stub.node.state import (
    arrays,
    blobs,
    ended,
    jobs,
    leases,
    quotas,
    retention,
    tasks,
    trust,
    verdicts,
    votes,
)
from server_stub.node.state.words import Step
from server_stub.node.training import closing
from server_stub.node.training import rows as trainings

if TYPE_CHECKING:
    from server_stub.node.node import Node

__all__ = ["PASSING", "TICK_S", "Upkeep"]

BATCH_TASKS: Final = 32
TICK_S: Final = 1.0
TIDY_S: Final = 300.0
PASSING: Final = frozenset({"database_failed", "database_locked"})
"""Causes for which a transaction is tried again: nothing of it has happened."""

log = logging.getLogger("gpugoblin.node")


class Upkeep:
    """The loops of one node. `start` it inside an event loop; whoever stops the node cancels what
    that returned.

    Attributes:
        generate: wakes the loop that makes tasks.
        deleted: blobs whose files are gone and whose rows are not.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.generate = asyncio.Event()
        self.deleted: list[str] = []

    def start(self) -> list[asyncio.Task[None]]:
        """The loops."""
        watcher = self._node.watcher
        return [
            asyncio.create_task(self._every(self._generate_all, self.generate)),
            asyncio.create_task(self._every(self._tick, asyncio.Event())),
            asyncio.create_task(self._every(watcher.look, watcher.wake)),
            asyncio.create_task(self._every(self._tidy, asyncio.Event(), TIDY_S)),
        ]

    async def _every(
        self, body: Callable[[], Any], wake: asyncio.Event, tick_s: float = TICK_S
    ) -> None:
        """Runs `body` when woken and once a tick; a failure is logged and tried again."""
        while True:
            try:
                await body()
            except GoblinError as error:
                log.error("%s", error)
            except Exception:  # the edge of a background loop: the log is the only reader
                log.exception("a loop of the node failed; it goes on")
            with suppress(TimeoutError):
                async with asyncio.timeout(tick_s):
                    await wake.wait()
            wake.clear()

    async def _tick(self) -> None:
        """Time-outs, second opinions that nobody gave, old nonces, rows of deleted files."""
        deleted, self.deleted = self.deleted, []

        def body(step: Step) -> None:
            leases.expire(step)
            votes.overdue(step)
            verdicts.stuck(step)
            trust.forget_nonces(step)
            blobs.forget(step, deleted)

        try:
            await self._node.handle(body)
        except BaseException:
            self.deleted += deleted
            raise

    async def _tidy(self) -> None:
        """Uploads that nobody used, or goes on with, go; what ended jobs kept for long; caches
        over their limits."""
        await leftovers.drop_uploads(self._node)
        await self._node.handle(ended.outdated)
        rows = await self._node.handle(arrays.unused_uploads)
        await asyncio.to_thread(results.discard, rows)
        settings = self._node.settings
        limits = retention.Limits.of(settings.cache_days, settings.cache_bytes)
        await leftovers.drop_caches(self._node, limits=limits)

    async def _generate_all(self) -> None:
        """Keeps a window of tasks ahead for every running job."""
        waiting = await self._without_hours()
        for job in await self._node.store.read(jobs.running):
            if job in waiting:
                continue
            try:
                while await self.generate_some(job):
                    pass
            except GoblinError as error:
                code, text = error.code, str(error)
                if code in PASSING:
                    raise  # the job is not at fault; the loop comes back to it
                # It runs before the names mean something else.
                await self._node.persist(lambda step: jobs.fail(step, job, code, None, text))  # noqa: B023

    async def _without_hours(self) -> frozenset[str]:
        """Jobs whose owners have used up their hours of volunteers: nothing further begins."""
        now_s = self._node.clock.wall_s()
        owners = await self._node.store.read(lambda tx: quotas.without_hours(tx, now_s))
        found, news = await self._node.store.read(lambda tx: quotas.held(tx, owners))
        if news:
            await self._node.handle(lambda step: quotas.note_held(step, owners))
        return found

    async def generate_some(self, job: str) -> bool:
        """Adds a batch of tasks if the window has room; says whether it did."""
        node = self._node
        found = await node.store.read(lambda tx: jobs.window(tx, job))
        if found is None:
            node.planner.forget(job)
            return False
        row, graph, ahead = found
        training = await node.store.read(lambda tx: trainings.load(tx, job))
        if row.cursor >= row.tasks or ahead >= node.settings.window_tasks:
            return False
        count = min(BATCH_TASKS, node.settings.window_tasks - ahead)

        known = await asyncio.to_thread(
            node.planner.of_job, job, graph, row.limits, row.block_axis, training
        )
        plan = await closing.decided(node, job, known, row.cursor, node.clock.wall_s())
        batch = await asyncio.to_thread(node.planner.batch, plan, row.cursor, count)
        if not batch.tasks:
            return False  # A round has to end first.

        def body(step: Step) -> int:
            for name, kept in batch.graphs.items():
                jobs.add_graph(step, name, *kept)
            return tasks.generate(step, job, batch.first, batch.tasks)

        return await node.handle(body) > 0
