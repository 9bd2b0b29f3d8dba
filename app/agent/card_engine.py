"""The engine of one card, driven by the loop: start, feed, empty, end.

Owns: the handle (`app.host.Engine`), which task belongs to which lease, and the private copies of
outputs. Must not: know a grant or a lab node; decide when something happens. What happened is told
as events of the machine through `post`.

Bytes go from the cache straight into the input arena. Outputs are copied 1 MiB at a time to private
memory, hashed there, and only that copy is used: an engine may change what lies in its arena.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Final

from app.agent.calibration import UNKNOWN, Rates
from app.agent.card_proof import LIES
from app.agent.checkup import Checkup
from app.agent.duty import Duty
from app.agent.engine_start import EngineStart, Proof, Started, no_proof, no_warm_up
from app.agent.events import (
    EngineDied,
    EngineDone,
    EngineReady,
    EngineRefused,
    EngineStopped,
    Event,
    SubmitDeferred,
    TaskRefused,
)
from app.agent.lab import Output
from app.agent.lane import Lane
from app.agent.losses import Counted, Losses
from app.agent.outputs import output_bytes, private_copy
from app.agent.residency import Residency
from app.host.arena import Slot
from app.host.engine import Engine
from app.host.spec import Died, Done, EngineTask, Failed, Ready, Refused
from gpugoblin.errors import AgentError, EngineError, GoblinError
from gpugoblin.ids import BlobHash, LeaseId
from gpugoblin.wire.messages.task import Task

__all__ = ["CardEngine", "Computed"]

REFUSED_RETRY_S: Final = 300.0
LIED_RETRY_S: Final = 3600.0
"""How long a card rests that gave a wrong answer to what is known."""
DIED: Final = frozenset({"engine_died", "engine_silent", "process_unprobed", "card_lost"})
"""Ends while starting that say nothing against the machine: it is tried again soon."""
Reader = Callable[[BlobHash, memoryview], None]
"""Fills a view with the bytes of a blob; blocks; raises AgentError."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A result before it is committed: private bytes, hashed."""

    outputs: tuple[Output, ...]
    compute_s: float
    peak_memory_bytes: int


@dataclass(slots=True)
class _Running:
    lease: LeaseId
    slots: tuple[tuple[int, Slot], ...]


class CardEngine:
    """One card's engine, if it runs. All methods belong to the loop's thread.

    Args:
        start: makes an engine that was demanded at a level, blocking; called on `launcher`.
        launcher: a lane that lives as long as the agent, since an engine ends with the thread that
            started it.
        pool: for hashing and decrypting.
        keep: given each result before its `EngineDone` is posted.
        is_partial: the card serves a part of the catalog, so a task that it does not serve says
            nothing against the lab, nor against the card, which is lent on.
        proof, warm: what each engine must show before its first task, and what comes before it.
        checkup: what a running engine is asked between tasks.
        lost: told at a stop how many seconds of computing it throws away.
        failed: told a wrong answer to that, and a loss of the card; blocks, called on `pool`.
    """

    def __init__(
        self,
        card: int,
        start: Callable[[], Engine],
        launcher: Lane,
        pool: Executor,
        post: Callable[[Event], None],
        keep: Callable[[LeaseId, Computed], None],
        *,
        is_partial: bool = False,
        proof: Proof = no_proof,
        warm: Callable[[Callable[[], None]], None] = no_warm_up,
        checkup: Checkup | None = None,
        failed: Callable[[EngineError], None] = lambda error: None,
        lost: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.card = card
        self.ready: Ready | None = None
        self.refusal: GoblinError | None = None  # why the last start failed, with its fix
        self.rates: Rates | None = None
        self._start = start
        self._launcher = launcher
        self._pool = pool
        self._post = post
        self._keep = keep
        self._harmless = {"does_not_fit", "class_unsupported"} if is_partial else {"does_not_fit"}
        self._engine: Engine | None = None
        self._residency: Residency | None = None
        self._running: dict[int, _Running] = {}
        self._copies: set[asyncio.Task[None]] = set()
        self._loads: set[asyncio.Task[None]] = set()
        self._burials: set[asyncio.Task[None]] = set()
        self._dropped: set[LeaseId] = set()
        self._order = asyncio.Lock()
        self._duty, self._losses, self._lost = Duty(), Losses(), lost
        self._proof, self._warm = proof, warm
        self._checkup = checkup or Checkup()
        self._failed = failed
        self._fault: EngineError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._is_starting = False
        self._starting: asyncio.Task[None] | None = None
        self._start_call: EngineStart | None = None

    @property
    def level(self) -> str:
        """The level of the last engine that ran; empty before the first."""
        return "" if self.ready is None else self.ready.level

    # -- life ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts an engine without waiting for it."""
        self._is_stopping, self._is_starting = False, True
        self._starting = asyncio.get_running_loop().create_task(self.start())

    async def close(self) -> None:
        """Ends the engine, if there is one, and everything that goes on around it.

        A start that is on its way is called off and awaited: its engine must be gone too.
        """
        self._is_stopping = True
        if self._starting is not None:
            self._call_off()
            await asyncio.wait([self._starting])
        engine = self._engine
        if engine is not None:
            self._let_go(engine)
        for work in (*self._copies, *self._loads):
            work.cancel()
        for tasks in (self._copies, self._loads, self._burials):
            if tasks:
                await asyncio.wait(tasks)
        if engine is not None:
            engine.close()

    def _call_off(self) -> None:
        if self._start_call is not None:
            self._start_call.call_off()

    async def start(self) -> None:
        """Starts an engine and measures it the first time; posts EngineReady or EngineRefused."""
        self._start_call = EngineStart(self._start, self.rates, self._proof, self._warm)
        call: Future[Started] = self._launcher.call(self._start_call)
        try:
            started = await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            # The launcher goes on; what it started must not be left running.
            self._call_off()
            call.add_done_callback(_close_started)
            raise
        except GoblinError as error:
            self._is_starting, self._start_call = False, None
            self._tell_refusal(error)
            return
        self._is_starting = False
        engine, self.ready, self.rates = started.engine, started.ready, started.rates
        if self._is_stopping:
            engine.stop()
        self._engine, self.refusal = engine, None
        self._start_call = None
        self._duty.attach(Counted(engine, self._losses))
        self._residency = Residency(engine.inputs)
        asyncio.get_running_loop().add_reader(engine.fileno(), self._poll)
        if not self._is_stopping:
            self._post(EngineReady(card=self.card))
        self._poll()

    def _tell_refusal(self, error: GoblinError) -> None:
        if self._is_stopping:
            self._post(EngineStopped(card=self.card))
        elif error.code in DIED:
            self._post(EngineDied(card=self.card, code=error.code))
        else:
            self.refusal = error
            retry_s = LIED_RETRY_S if error.code in LIES else REFUSED_RETRY_S
            self._post(EngineRefused(card=self.card, code=error.code, retry_s=retry_s))

    def stop(self) -> None:
        """Ends the engine at once; posts EngineStopped when it is gone."""
        self._is_stopping = True
        engine = self._engine
        if engine is not None:
            self._poll()  # what is done already is not lost
            if self._engine is engine:
                self._lost(self._losses.stop())
                engine.stop()
                self._poll()
        elif self._is_starting:
            self._call_off()
        else:
            self._post(EngineStopped(card=self.card))

    def freeze(self) -> None:
        """Stops the engine in its place until `thaw`, whatever its duty is."""
        self._duty.hold()

    def thaw(self) -> None:
        self._duty.release()

    def throttle(self, percent: int) -> None:
        """Lets the engine compute so much of the time."""
        self._duty.set(percent)

    def pids(self) -> tuple[int, ...]:
        """The engine's processes, from any thread, also while it starts and shows what it knows:
        nobody may take it for somebody else's. Empty when it does not run."""
        engine, starting = self._engine, self._start_call
        if engine is None and starting is not None:
            engine = starting.engine
        return () if engine is None else engine.pids

    # -- tasks -----------------------------------------------------------------------------

    def submit(self, lease: LeaseId, task: Task, read: Reader) -> None:
        """Fills the arena and queues the task, in the order of the calls. Told by events."""
        self._dropped.discard(lease)
        work = asyncio.get_running_loop().create_task(self._submit(lease, task, read))
        self._loads.add(work)
        work.add_done_callback(self._loads.discard)

    def cancel(self, lease: LeaseId) -> None:
        """Takes a task out. Whatever still comes of it is dropped."""
        self._dropped.add(lease)
        for number, running in self._running.items():
            if running.lease == lease and self._engine is not None:
                self._engine.cancel(number)

    async def _submit(self, lease: LeaseId, task: Task, read: Reader) -> None:
        async with self._order:
            engine, residency = self._engine, self._residency
            if engine is None or residency is None or lease in self._dropped:
                return
            self._checkup.ask_if_due(engine)
            slots: list[Slot] = []
            try:
                places = [
                    await self._place(engine, residency, lease, each.blob, each.nbytes, read)
                    for each in task.inputs
                ]
                for nbytes in output_bytes(task):
                    slots.append(engine.outputs.allocate(nbytes))
                if lease in self._dropped:
                    self._free(engine, lease, slots)
                    return
                number = engine.submit(
                    EngineTask(
                        task.graph,
                        tuple(places),
                        tuple(slots),
                        self._predicted_s(task),
                        task.numeric_class,
                    )
                )
            except (EngineError, AgentError) as error:
                self._free(engine, lease, slots)
                self._tell_not_submitted(lease, error)
                return
            outputs = tuple(
                (output.slot, slot) for output, slot in zip(task.outputs, slots, strict=True)
            )
            self._running[number] = _Running(lease, outputs)
            self._losses.begin()
        self._poll()

    def _tell_not_submitted(self, lease: LeaseId, error: GoblinError) -> None:
        if error.code in ("arena_full", "engine_busy"):
            self._post(SubmitDeferred(card=self.card, lease=lease))
        elif error.code != "engine_closed":  # its end is told by Died
            self._post(TaskRefused(card=self.card, lease=lease, code=error.code))

    async def _place(
        self,
        engine: Engine,
        residency: Residency,
        lease: LeaseId,
        blob: BlobHash,
        nbytes: int,
        read: Reader,
    ) -> Slot:
        place, is_new = residency.take(blob, nbytes, lease)
        if is_new:
            view = engine.inputs.view(place.slot)
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._pool, read, blob, view)
            except asyncio.CancelledError:
                residency.forget(blob)  # the thread still holds the view, and lets it go itself
                raise
            except BaseException:
                residency.forget(blob)
                view.release()
                raise
            view.release()
        return place.slot

    def _free(self, engine: Engine, lease: LeaseId, slots: list[Slot]) -> None:
        for slot in slots:
            engine.outputs.free(slot)
        if self._residency is not None:
            self._residency.release(lease)

    def _predicted_s(self, task: Task) -> float:
        # The watchdog is for engines that hang; a machine that is busy otherwise is no reason.
        rates = self.rates or UNKNOWN
        honest_s = task.flops / rates.flops_per_s + task.bytes_moved / rates.bytes_per_s
        return 10.0 + 10.0 * honest_s

    # -- what the engine says ----------------------------------------------------------------

    def _poll(self) -> None:
        engine = self._engine
        if engine is None:
            return
        for event in engine.poll():
            if isinstance(event, Died):
                self._bury(engine, event)
                return
            if self._fault is not None:  # nothing of it is used any more; its end is still to come
                continue
            if isinstance(event, (Done, Refused, Failed)) and event.task in self._checkup:
                self._fault = self._checkup.judge(engine, event)
                if self._fault is not None:
                    engine.stop()
            elif isinstance(event, Done):
                self._copy(engine, event)
            elif isinstance(event, (Refused, Failed)):
                self._not_done(engine, event)
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(engine.next_check_s(), self._poll)

    def _copy(self, engine: Engine, event: Done) -> None:
        running = self._running.pop(event.task)
        self._losses.end(goes_on=bool(self._running))
        self._checkup.count()
        work = asyncio.get_running_loop().create_task(self._take(engine, running, event))
        self._copies.add(work)
        work.add_done_callback(self._copies.discard)

    async def _take(self, engine: Engine, running: _Running, event: Done) -> None:
        lease = running.lease
        outputs: list[Output] = []
        loop = asyncio.get_running_loop()
        if lease not in self._dropped:
            for number, slot in running.slots:
                outputs.append(
                    await loop.run_in_executor(
                        self._pool, private_copy, engine.outputs, number, slot
                    )
                )
        self._free(engine, lease, [slot for _, slot in running.slots])
        if lease in self._dropped:
            self._dropped.discard(lease)
        else:
            computed = Computed(tuple(outputs), event.compute_s, event.peak_memory_bytes)
            self._keep(lease, computed)
            self._post(EngineDone(card=self.card, lease=lease))

    def _not_done(self, engine: Engine, event: Refused | Failed) -> None:
        running = self._running.pop(event.task)
        self._losses.end(goes_on=bool(self._running))
        self._free(engine, running.lease, [slot for _, slot in running.slots])
        if running.lease in self._dropped:
            self._dropped.discard(running.lease)
        else:
            is_refused = isinstance(event, Refused)
            is_unfit = is_refused and event.code in self._harmless
            self._post(
                TaskRefused(
                    card=self.card,
                    lease=running.lease,
                    code=event.code,
                    is_nonsense=is_refused and not is_unfit,
                    is_unfit=is_unfit,
                )
            )

    def _bury(self, engine: Engine, event: Died) -> None:
        self._let_go(engine)
        work = asyncio.get_running_loop().create_task(self._buried(engine, event))
        self._burials.add(work)
        work.add_done_callback(self._burials.discard)

    def _let_go(self, engine: Engine) -> None:
        asyncio.get_running_loop().remove_reader(engine.fileno())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._duty.detach()
        self._engine, self._residency = None, None
        self._running.clear()
        self._losses.stop()
        self._dropped.clear()
        self._checkup.forget()

    async def _buried(self, engine: Engine, event: Died) -> None:
        # Tasks that were done before the end are told before it.
        rest = [*self._copies, *self._loads]
        if rest:
            await asyncio.wait(rest)
        engine.close()
        fault, self._fault = self._fault, None
        said = fault or event.error
        if isinstance(said, EngineError):
            await asyncio.get_running_loop().run_in_executor(self._pool, self._failed, said)
        if fault is not None:
            self._tell_refusal(fault)
        elif self._is_stopping:
            self._post(EngineStopped(card=self.card))
        else:
            self._post(EngineDied(card=self.card, code=event.error.code))


def _close_started(call: Future[Started]) -> None:
    if not call.cancelled() and call.exception() is None:
        call.result().engine.close()
