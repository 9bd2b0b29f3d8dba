"""Carries out the state machine's instructions to the workers, and brings back their answers.

Owns: which items are under way (one per instruction), the order among them, and what is tried
again. Must not: decide anything about a result. Nothing here outlives the process: after a restart
the state machine gives the same instructions again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final, Protocol

from gpugoblin.errors import GoblinError, NodeError
from server_stub.node.items import work_id
from server_stub.node.state.words import RunWork
from server_stub.node.work import Reply, Work

__all__ = ["TRANSIENT", "Pool", "WorkRunner"]

TRANSIENT: Final = frozenset({"disk_full", "engine_busy"})
"""Causes that pass: the item is tried again, and the job says meanwhile what it waits for."""

RETRY_S: Final = 10.0

log = logging.getLogger("gpugoblin.node")


class Pool(Protocol):
    """The part of `WorkerPool` that is used here."""

    async def run(self, work: Work) -> Reply: ...


class WorkRunner:
    """Runs items; at most `prepare_limit` of them prepare inputs, so that checks come first.

    `run` has an item done: by the pool, unless whoever made this says otherwise.
    """

    def __init__(
        self,
        pool: Pool,
        build: Callable[[RunWork], Awaitable[Work | None]],
        finished: Callable[[RunWork, Work, Reply], Awaitable[None]],
        failed: Callable[[RunWork, GoblinError, bool], Awaitable[None]],
        prepare_limit: int,
        retry_s: float = RETRY_S,
    ) -> None:
        self.run: Callable[[RunWork, Work], Awaitable[Reply]] = lambda _, item: pool.run(item)
        self._build = build
        self._finished = finished
        self._failed = failed
        self._retry_s = retry_s
        self._running: dict[str, asyncio.Task[None]] = {}
        self._effects: dict[str, tuple[RunWork, float]] = {}
        self._prepare = asyncio.Semaphore(prepare_limit)

    def start(self, effect: RunWork) -> None:
        """Begins an item unless the same one is under way."""
        name = work_id(effect)
        if name in self._running:
            return
        self._effects[name] = (effect, time.monotonic())
        self._running[name] = asyncio.create_task(self._guarded(name, effect))

    def validator_wait_s(self) -> float:
        """Age of the oldest item that waits for the validator."""
        now_s = time.monotonic()
        ages = [
            now_s - started_s
            for effect, started_s in self._effects.values()
            if effect.purpose in ("recompute", "judge")
        ]
        return max(ages, default=0.0)

    @property
    def busy(self) -> int:
        """Items under way."""
        return len(self._running)

    async def drained(self, tasks: Collection[int]) -> None:
        """Returns when no worker can write a new result of any of these tasks any more.

        A fold writes what is verified already, however often.
        """
        wanted = frozenset(tasks)
        while busy := [
            self._running[name]
            for name, (effect, _) in self._effects.items()
            if effect.purpose not in ("prepare", "fold") and effect.task in wanted
        ]:
            await asyncio.wait(busy)

    async def stop(self) -> None:
        """Ends at once."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _guarded(self, name: str, effect: RunWork) -> None:
        try:
            if effect.purpose == "prepare":
                async with self._prepare:
                    await self._run(name, effect)
            else:
                await self._run(name, effect)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the edge of a task: the job says it, the log says more
            log.exception("work item %s failed in the node", name)
            surprise = NodeError("internal", kind=type(error).__name__)
            with suppress(GoblinError):
                await self._failed(effect, surprise, False)
        finally:
            self._forget(name)

    def _forget(self, name: str) -> None:
        own = asyncio.current_task()
        if self._running.get(name) is own:
            self._running.pop(name, None)
            self._effects.pop(name, None)

    async def _run(self, name: str, effect: RunWork) -> None:
        while True:
            item = await self._build(effect)
            if item is None:
                return
            try:
                reply = await self.run(effect, item)
            except GoblinError as error:
                again = error.code in TRANSIENT
                await self._failed(effect, error, again)
                if not again:
                    return
                await asyncio.sleep(self._retry_s)
                continue
            # From here on the same instruction means a new item.
            self._forget(name)
            await self._finished(effect, item, reply)
            return
