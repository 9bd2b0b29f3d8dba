"""The lab's own engine: the worker `local` of the pool, kept fed.

Owns: the few leases that are at the engine at one time, so that it never waits for the node. Must
not: decide what a result is worth (`state.verdicts` does), or touch bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Protocol

from gpugoblin.errors import GoblinError, NodeError
from server_stub.node.executors.base import EventFeed, ExecutorEvent, Fleet
from server_stub.node.state.dispatch import LocalLease
from server_stub.node.work import Computed, Reply, Work
from server_stub.node.workrunner import RETRY_S, TRANSIENT

__all__ = ["LocalExecutor", "LocalHost"]

log = logging.getLogger("gpugoblin.node")


class LocalHost(Protocol):
    """What the executor asks of the node."""

    async def lease_local(self, want: int) -> list[LocalLease]:
        """Ready tasks, leased durably to this engine."""
        ...

    async def compute_item(self, lease: LocalLease) -> Work | None:
        """What to compute; None when it is not wanted any more."""
        ...

    async def run_work(self, item: Work) -> Reply:
        """Has a worker do it. Raises GoblinError."""
        ...

    async def local_done(self, lease: LocalLease, reply: Computed) -> None:
        """Tells the state machine."""
        ...

    async def local_waits(self, lease: LocalLease, error: GoblinError) -> None:
        """The job says what it waits for."""
        ...

    async def local_failed(self, lease: LocalLease, error: GoblinError) -> None:
        """Tells the state machine."""
        ...


class LocalExecutor:
    """Keeps `outstanding` tasks at the engine. Start it, and stop it when the node ends.

    Args:
        fleet: what the engine has; its rate is learned from what it computes.
    """

    name = "local"

    def __init__(
        self, host: LocalHost, fleet: Fleet, outstanding: int, retry_s: float = RETRY_S
    ) -> None:
        self._retry_s = retry_s
        self._host = host
        self._fleet = fleet
        self._outstanding = outstanding
        self._feed = EventFeed()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._pull())

    async def stop(self) -> None:
        """Ends at once; what was leased becomes ready again at the next start."""
        tasks = [*self._running.values()]
        if self._loop is not None:
            tasks.append(self._loop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._feed.close()

    async def capabilities(self, needs: int = 0) -> Fleet:
        return self._fleet

    @property
    def dtypes(self) -> int:
        """What the engine has (`Dtypes.mask`)."""
        return self._fleet.dtypes

    @property
    def busy(self) -> int:
        """Tasks at the engine."""
        return len(self._running)

    def learn(self, flops_per_s: float) -> None:
        """Takes a measured rate for the estimates."""
        self._fleet = replace(self._fleet, flops_per_s=flops_per_s)

    def submit(self, job: str) -> None:
        self._wake.set()

    def cancel(self, lease: str) -> None:
        task = self._running.get(lease)
        if task is not None:
            task.cancel()

    def events(self) -> AsyncIterator[ExecutorEvent]:
        return self._feed.read()

    async def _pull(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            room = self._outstanding - len(self._running)
            if room <= 0:
                continue
            try:
                issued = await self._host.lease_local(room)
            except GoblinError as error:
                log.error("%s", error)
                await asyncio.sleep(1.0)
                self._wake.set()
                continue
            for lease in issued:
                self._feed.put("leased", lease.lease)
                task = asyncio.create_task(self._compute(lease))
                self._running[lease.lease] = task

    async def _patiently(self, lease: LocalLease) -> Reply | None:
        """The answer; what passes by itself (a full disk) is waited for. None: not wanted."""
        while True:
            item = await self._host.compute_item(lease)
            if item is None:
                return None
            try:
                return await self._host.run_work(item)
            except GoblinError as error:
                if error.code not in TRANSIENT:
                    raise
                await self._host.local_waits(lease, error)
                await asyncio.sleep(self._retry_s)

    async def _compute(self, lease: LocalLease) -> None:
        try:
            reply = await self._patiently(lease)
            if reply is None:
                self._feed.put("cancelled", lease.lease)
            elif isinstance(reply, Computed):
                await self._host.local_done(lease, reply)
                self._feed.put("finished", lease.lease)
        except GoblinError as error:
            self._feed.put("failed", lease.lease)
            await self._host.local_failed(lease, error)
        except Exception as error:  # the edge of a task: the job says it, the log says more
            log.exception("computing of task %s failed in the node", lease.task)
            self._feed.put("failed", lease.lease)
            surprise = NodeError("internal", kind=type(error).__name__)
            await self._host.local_failed(lease, surprise)
        except asyncio.CancelledError:
            self._feed.put("cancelled", lease.lease)
            raise
        finally:
            self._running.pop(lease.lease, None)
            self._wake.set()
