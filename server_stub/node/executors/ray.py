"""The lab's own Ray cluster, as an executor: each machine of it holds an engine that is kept fed.

Owns: which leases are at which machine, and what becomes of one whose machine is gone. Must not:
decide what a result is worth (`state.verdicts` does), touch bytes, or import ray.

A machine of the cluster is the lab's own, but it never has the last word on its own result: what it
returns is kept as blobs, and another one checks them. It computes the tasks of jobs for Ray and,
beside the volunteers, those of jobs for the grid.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from functools import reduce
from operator import and_
from typing import Final, Protocol, TypeVar

import msgspec

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.graph.dtypes import EVERY_DTYPE
from server_stub.node import answers, items
from server_stub.node.estimate import GUESSED_FLOPS_PER_S
from server_stub.node.executors.base import EventFeed, ExecutorEvent, Fleet
from server_stub.node.executors.ray_link import Link
from server_stub.node.executors.ray_words import Seat
from server_stub.node.settings import NodeSettings
from server_stub.node.state import leases, own
from server_stub.node.state.dispatch import LocalLease
from server_stub.node.state.words import RunWork, Step
from server_stub.node.store.protocol import Store
from server_stub.node.work import Compute, Computed
from server_stub.node.workrunner import RETRY_S, TRANSIENT

__all__ = ["RayExecutor", "RayHost"]

OUTSTANDING: Final = 3
"""Tasks at a machine at one time, so that its engine never waits for the node."""
WEIGHT: Final = 0.2
LEAST_S: Final = 0.005
LEAST_FLOPS: Final = 10**8

T = TypeVar("T")

log = logging.getLogger("gpugoblin.node.ray")


class RayHost(Protocol):
    """What the executor asks of the node."""

    @property
    def store(self) -> Store: ...

    @property
    def settings(self) -> NodeSettings: ...

    async def handle(self, handler: Callable[[Step], T], *, brief: bool = False) -> T: ...

    async def persist(self, handler: Callable[[Step], T]) -> T: ...

    def has_blobs(self, names: Sequence[str]) -> bool:
        """Whether all of them are complete and durable here."""
        ...


class RayExecutor:
    """Keeps the machines of a Ray cluster fed. Start it, and stop it when the node ends.

    Args:
        link: the way to the cluster.
        takes: whose tasks its machines compute (`executor` of a job).
    """

    name = "ray"

    def __init__(
        self, host: RayHost, link: Link, takes: tuple[str, ...], retry_s: float = RETRY_S
    ) -> None:
        self._host = host
        self._link = link
        self._takes = takes
        self._retry_s = retry_s
        self._feed = EventFeed()
        self._wake = asyncio.Event()
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self._rates: dict[str, float] = {}
        self._loop: asyncio.Task[None] | None = None
        self._told = ""

    @property
    def link(self) -> Link:
        return self._link

    async def start(self) -> None:
        await self._link.start(self._wake.set)
        self._loop = asyncio.create_task(self._pull())

    async def stop(self) -> None:
        """Ends at once; what was leased becomes ready again at the next start."""
        tasks = [task for _, task in self._running.values()]
        if self._loop is not None:
            tasks.append(self._loop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.stop()
        self._feed.close()

    async def capabilities(self, needs: int = 0) -> Fleet:
        """The machines that are there now and have these dtypes."""
        settings = self._host.settings
        seats = [seat for seat in self._link.seats.values() if needs & ~seat.dtypes == 0]
        if not seats:
            memory_bytes = settings.engine_memory_bytes
            return Fleet(0, memory_bytes, settings.slot_bytes, 1, 0.0, 0.0, EVERY_DTYPE.mask())
        return Fleet(
            engines=len(seats),
            memory_bytes=min(seat.memory_bytes for seat in seats),
            slot_bytes=min(seat.slot_bytes for seat in seats),
            threads=min(seat.threads for seat in seats),
            flops_per_s=self._flops_per_s(seats),
            bytes_per_s=settings.ray_bytes_per_s * len(seats),
            dtypes=reduce(and_, (seat.dtypes for seat in seats)),
        )

    def _flops_per_s(self, seats: list[Seat]) -> float:
        """Of all machines. Those that were not measured are as the others, or as is usual."""
        known = [self._rates[seat.seat] for seat in seats if seat.seat in self._rates]
        if not known:
            return GUESSED_FLOPS_PER_S * sum(seat.threads for seat in seats)
        return len(seats) * sum(known) / len(known)

    def submit(self, job: str) -> None:
        self._wake.set()

    def cancel(self, lease: str) -> None:
        found = self._running.get(lease)
        if found is not None:
            found[1].cancel()

    def events(self) -> AsyncIterator[ExecutorEvent]:
        return self._feed.read()

    async def _pull(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._tell()
                for seat in list(self._link.seats.values()):
                    await self._fill(seat)
            except GoblinError as error:
                log.error("%s", error)
                await asyncio.sleep(1.0)
                self._wake.set()

    async def _fill(self, seat: Seat) -> None:
        room = OUTSTANDING - sum(at == seat.seat for at, _ in self._running.values())
        if room <= 0:
            return
        offer = own.Offer(
            own.device_of(seat.seat), self._takes, seat.memory_bytes, seat.slot_bytes, seat.dtypes
        )
        for lease in await self._host.handle(lambda step: own.lease(step, offer, room)):
            self._feed.put("leased", lease.lease)
            task = asyncio.create_task(self._compute(seat, lease))
            self._running[lease.lease] = (seat.seat, task)

    async def _tell(self) -> None:
        """Jobs for Ray say what they wait for, while they wait for it."""
        error = self._link.trouble if not self._link.seats else None
        code, text = ("", "") if error is None else (error.code, str(error))
        if code or code != self._told:
            await self._host.handle(lambda step: own.wait(step, code, text))
            self._told = code

    async def _compute(self, seat: Seat, lease: LocalLease) -> None:
        try:
            while True:
                if await self._once(seat, lease):
                    return
                await asyncio.sleep(self._retry_s)
        except asyncio.CancelledError:
            self._feed.put("cancelled", lease.lease)
            raise
        except Exception as error:  # the edge of a task: the log says it, another one computes it
            log.exception("computing of task %s failed in the node", lease.task)
            await self._give_back(seat, lease, NodeError("internal", kind=type(error).__name__))
        finally:
            self._running.pop(lease.lease, None)
            self._wake.set()

    async def _once(self, seat: Seat, lease: LocalLease) -> bool:
        """One try; False when the cause passes by itself (a full disk)."""
        effect = RunWork("compute", lease.task, lease.lease)
        item = await self._host.store.read(lambda tx: items.build_packed(tx, effect))
        if item is None:
            self._feed.put("cancelled", lease.lease)
            return True
        try:
            reply = await self._link.run(seat.seat, item)
        except GoblinError as error:
            if error.code in TRANSIENT:
                why = error
                await self._host.persist(lambda step: answers.waiting(step, effect, why))
                return False
            await self._give_back(seat, lease, error)
            return True
        if isinstance(item, Compute) and isinstance(reply, Computed):
            self._learn(seat, item.flops, reply.compute_s)
            await self._done(seat, lease, reply)
        return True

    def _learn(self, seat: Seat, flops: int, compute_s: float) -> None:
        if flops >= LEAST_FLOPS and compute_s >= LEAST_S:
            rate = flops / compute_s
            before = self._rates.get(seat.seat, rate)
            self._rates[seat.seat] = (1.0 - WEIGHT) * before + WEIGHT * rate

    async def _done(self, seat: Seat, lease: LocalLease, reply: Computed) -> None:
        # Inputs were blobs, which are what their names say: there is nothing to learn of regions.
        told = msgspec.structs.replace(reply, input_blobs=("",) * len(reply.input_blobs))
        effect = RunWork("compute", lease.task, lease.lease)

        def body(step: Step) -> bool:
            if not self._host.has_blobs(list(reply.output_blobs)):
                return False
            answers.apply(step, effect, told)
            return True

        if await self._host.persist(body):
            self._feed.put("finished", lease.lease)
        else:
            await self._give_back(seat, lease, NodeError("ray_worker_lost", reason="bytes lost"))

    async def _give_back(self, seat: Seat, lease: LocalLease, error: GoblinError) -> None:
        """Another machine, or after many tries the validator, computes it: nobody is to blame."""
        log.warning("task %s at %s: %s", lease.task, seat.host, error)
        party = own.party(own.device_of(seat.seat))
        await self._host.persist(lambda step: leases.abandon(step, party, lease.lease, error.code))
        self._feed.put("failed", lease.lease)
