"""The lab node at work: the shell around the state machine.

Owns: the clock, the random source, and the order *transaction, then effects*. Must not: hold a rule
of what a result is worth, or touch an array's bytes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.blobs.store import BlobStore
from gpugoblin.clock import Clock
from gpugoblin.errors import GoblinError, NodeError, StoreError
from gpugoblin.graph.dtypes import EVERY_DTYPE
from server_stub.node import answers, items, leftovers, remaking, results
from server_stub.node.disk_rate import DiskRate
from server_stub.node.executors.base import Executor, Fleet
from server_stub.node.executors.grid import GridExecutor
from server_stub.node.executors.local import LocalExecutor
from server_stub.node.executors.ray import RayExecutor
from server_stub.node.executors.ray_checks import RayChecks
from server_stub.node.executors.ray_link import Link
from server_stub.node.own_engine import OwnEngine
from server_stub.node.planning import Planner
from server_stub.node.settings import NodeSettings
from server_stub.node.soundness import Soundness
from server_stub.node.state import (
    arrays,
    events,
    jobs,
    leases,
    lost,
    rates,
    trust,
    verdicts,
)
from server_stub.node.state.recover import recover
from server_stub.node.state.words import (
    LOCAL_DEVICE,
    RAY_DEVICES,
    DiscardResults,
    DropBlob,
    DropUploads,
    Effect,
    FinishJob,
    JobChanged,
    Rules,
    RunWork,
    Step,
    StopLease,
    Wake,
)
from server_stub.node.store.protocol import Store, Tx
from server_stub.node.summary import Summaries
from server_stub.node.training.watching import Watcher
from server_stub.node.upkeep import PASSING, TICK_S, Upkeep
from server_stub.node.validating.desk import Desk
from server_stub.node.validating.judging import Judging
from server_stub.node.work import Reply, Work
from server_stub.node.workrunner import Pool, WorkRunner

__all__ = ["Node"]

DRAIN_LOOK_S: Final = 0.05

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("gpugoblin.node")


class Node:
    """One lab node. `start` it inside an event loop, `stop` it before its store is closed."""

    def __init__(
        self,
        settings: NodeSettings,
        store: Store,
        pool: Pool,
        blob_store: BlobStore,
        clock: Clock,
        rules: Rules,
        key: Ed25519PrivateKey,
        link: Link | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.pool = pool
        self.blobs = blob_store
        self.clock = clock
        self.rules = rules
        self.key = key
        self.rng: random.Random = random.SystemRandom()
        self.planner = Planner()
        self.disk = DiskRate(settings.state)
        self.work = WorkRunner(
            pool, self.build, self._finished, self.failed, 2 * settings.check_workers
        )
        self.local = LocalExecutor(OwnEngine(self), self._engine(), settings.local_outstanding)
        self.grid = GridExecutor(self)
        self.executors: dict[str, Executor] = {"local": self.local, "grid": self.grid}
        self.ray: RayExecutor | None = None
        if link is not None:
            takes = ("ray", "grid") if "grid" in settings.executors else ("ray",)
            self.executors["ray"] = self.ray = RayExecutor(self, link, takes)
            if settings.validators_on == "ray":
                self.work.run = RayChecks(self, link, pool).run
        self.desk = Desk(clock.monotonic_s)
        self.work.run = Judging(self, self.desk, pool, self.work.run).run
        self.revoked: frozenset[str] = frozenset()
        self.sound = Soundness(clock.monotonic_s)
        self.watcher = Watcher(self)
        self.summaries = Summaries(store)
        self._changes: dict[str, asyncio.Event] = {}
        self.upkeep = Upkeep(self)
        self._loops: list[asyncio.Task[None]] = []
        self._dropping: set[str] = set()
        self._losses: Counter[str] = Counter()
        self.trouble: NodeError | None = None
        self.draining = False
        self.in_place: Callable[[], bool] = lambda: True
        self._facts: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._spawned: set[asyncio.Task[None]] = set()
        self._uploads: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def _engine(self) -> Fleet:
        settings = self.settings
        engines = 1 if settings.local_engine else 0
        return Fleet(
            engines=engines,
            memory_bytes=settings.engine_memory_bytes,
            slot_bytes=settings.slot_bytes,
            threads=settings.engine_threads,
            flops_per_s=0.0,
            bytes_per_s=0.0,
            dtypes=EVERY_DTYPE.mask(),  # it is the processor
        )

    async def start(self) -> None:
        """Goes on from wherever the last life of the node ended."""
        await self.handle(lambda step: arrays.move_own(step, self.settings.arrays_root))
        await remaking.look(self)
        await self.handle(recover)
        await leftovers.sweep(self)
        self.revoked = await self.store.read(trust.revoked)
        self.local.learn(await self.store.read(rates.local_flops_per_s))
        if self.settings.local_engine:
            await self.local.start()
        if self.ray is not None:
            await self.ray.start()
        self._loops = self.upkeep.start()

    async def drain(self, limit_s: float) -> bool:
        """Begins nothing new, and lets end what is under way: local tasks, results whose bytes are
        arriving, checks. Returns whether all of it ended within `limit_s`."""
        self.draining = True
        self.grid.submit("")  # devices whose question is held are told at once
        ends_s = self.clock.monotonic_s() + limit_s
        while self.in_place():
            arriving = await self.store.read(leases.arriving)
            if not (arriving or self.local.busy or self.work.busy):
                return True
            if self.clock.monotonic_s() >= ends_s:
                return False
            await asyncio.sleep(DRAIN_LOOK_S)
        return False

    async def stop(self) -> None:
        """Ends the loops and what is under way; rows say what goes on at the next start."""
        ending = [*self._loops, *self._spawned]
        for loop in ending:
            loop.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self.local.stop()
        if self.ray is not None:
            await self.ray.stop()
        self.grid.stop()
        await self.work.stop()
        for event in self._changes.values():
            event.set()

    async def handle(self, handler: Callable[[Step], T], *, brief: bool = False) -> T:
        """Runs a handler in a durable transaction, then carries out what it asks for.

        Args:
            brief: it touches few rows (see `Store.write`).

        Raises:
            GoblinError: whatever the handler raises; nothing of it has happened then.
        """
        behind = self.work.validator_wait_s() > 2.0 * self.rules.lease_floor_s

        def body(tx: Tx) -> tuple[T, list[Effect]]:
            step = Step(
                tx, self.clock.wall_s(), self.rng, self.rules, behind, facts=self._facts,
                dropping=self._dropping,
            )  # fmt: skip
            tx.at_end(events.settle, step)
            result = handler(step)
            return result, step.effects

        try:
            result, effects = await self.store.write(body, self._drop_files, brief=brief)
        except NodeError as error:
            self.trouble = error if error.code in PASSING else None
            raise
        self.trouble = None
        for effect in effects:
            self._carry_out(effect)
        return result

    async def persist(self, handler: Callable[[Step], T]) -> T:
        """As `handle`, for news that nobody would bring again: a full disk is waited for."""
        while True:
            try:
                return await self.handle(handler)
            except NodeError as error:
                if error.code not in PASSING:
                    raise
                log.error("%s", error)
            await asyncio.sleep(TICK_S)

    def _drop_files(self, outcome: tuple[Any, list[Effect]]) -> None:
        """Runs in the writer's thread: no other transaction can name these blobs meanwhile."""
        for effect in outcome[1]:
            if isinstance(effect, DropBlob) and effect.blob in self._dropping:
                self._dropping.discard(effect.blob)
                self.blobs.delete(effect.blob)
                self.upkeep.deleted.append(effect.blob)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case RunWork():
                self.work.start(effect)
            case StopLease():
                self._executor_of(effect.device).cancel(effect.lease)
            case JobChanged():
                self.upkeep.generate.set()
                self.watcher.wake.set()
                event = self._changes.pop(effect.job, None)
                if event is not None:
                    event.set()
            case Wake():
                for executor in self._takers(effect.executor):
                    executor.submit("")
            case FinishJob():
                self._spawn(self._finish, effect.job)
            case DiscardResults():
                self._spawn(leftovers.discard_results, self, effect.job)
            case DropUploads():
                self._spawn(leftovers.drop_parts, self, effect.lease, effect.outputs)
            case DropBlob():
                pass

    def _executor_of(self, device: str) -> Executor:
        if self.ray is not None and device.startswith(RAY_DEVICES):
            return self.ray
        return self.local if device == LOCAL_DEVICE else self.grid

    def _takers(self, executor: str) -> list[Executor]:
        """Who computes tasks of jobs for an executor."""
        found = self.executors.get(executor)
        takers = [] if found is None else [found]
        return [*takers, self.ray] if self.ray is not None and executor == "grid" else takers

    def has_blobs(self, names: Sequence[str]) -> bool:
        """Whether all of them are complete and durable here."""
        return all(self.blobs.has(name) for name in names)

    def upload_lock(self, array: str) -> asyncio.Lock:
        """One upload of an array at a time."""
        return self._uploads.setdefault(array, asyncio.Lock())

    def _spawn(self, work: Callable[P, Coroutine[Any, Any, object]], /, *arguments: P.args,
               **named: P.kwargs) -> None:  # fmt: skip
        # A node that stops at this moment cancels the task before it has begun; the coroutine
        # itself is made by the task, so that none is left that nobody awaits.
        task = asyncio.create_task(self._logged(work, *arguments, **named))
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    async def _logged(self, work: Callable[P, Coroutine[Any, Any, object]], /, *arguments: P.args,
                      **named: P.kwargs) -> None:  # fmt: skip
        try:
            await work(*arguments, **named)
        except GoblinError as error:
            log.error("%s", error)
        except Exception:  # the edge of a background task: the log is the only reader
            log.exception("a background task of the node failed")

    async def _finish(self, job: str) -> None:
        """Names the results of a job whose tasks are all used, then says that it is done."""
        rows = await self.store.read(lambda tx: arrays.of_job(tx, job))
        if not await self.watcher.last_look(job):
            return
        try:
            if await remaking.settle(self, job, await remaking.missing(self, job)):
                return
            await asyncio.to_thread(results.publish, rows)
        except StoreError as error:
            if not self.in_place():
                return
            code, text = error.code, str(error)
            await self.persist(lambda step: jobs.fail(step, job, code, None, text))
            return
        await self.persist(lambda step: jobs.finish(step, job))
        self.planner.forget(job)

    async def wait_change(self, job: str, timeout_s: float) -> None:
        """Returns when the job has changed, or after `timeout_s`."""
        event = self._changes.setdefault(job, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()

    # What the work runner asks for.

    async def build(self, effect: RunWork) -> Work | None:
        """The work item of an effect; None when it is not wanted any more."""
        return await self.store.read(lambda tx: items.build(tx, effect))

    async def _finished(self, effect: RunWork, item: Work, reply: Reply) -> None:
        kept = answers.kept_blobs(item, reply)

        def body(step: Step) -> bool:
            if not self.has_blobs(kept):
                return False
            answers.apply(step, effect, reply)
            return True

        if not await self.persist(body):  # the same content was let go of elsewhere in between
            self.work.start(effect)

    async def failed(self, effect: RunWork, error: GoblinError, again: bool) -> None:
        """A work item came to nothing. `again`: it is tried again, the job says why it waits."""
        log.warning("%s of task %s: %s", effect.purpose, effect.task, error)
        if not self.in_place():
            return  # the node is about to end; its rows say what goes on
        if again:
            await self.persist(lambda step: answers.waiting(step, effect, error))
            if error.code == "disk_full":
                self._spawn(leftovers.make_room, self)
        else:
            await self.persist(lambda step: self._give_up(step, effect, error))

    def _give_up(self, step: Step, effect: RunWork, error: GoblinError) -> None:
        blob = str(error.fields.get("blob", ""))
        if effect.purpose != "prepare" and self._losses[blob] < self.rules.local_attempts:
            self._losses[blob] += 1  # a disk that damages whatever is written ends the job
            if lost.lose_read(step, effect.task, error.code, blob):
                return
        verdicts.work_failed(
            step, effect.purpose, effect.task, effect.lease, error.code, str(error)
        )
