"""The handle of one engine: starts it, gives it tasks, watches it, ends it.

Owns: the process, its channel, its two arenas, and every limit that the parent enforces. Must not:
judge results, know a lease, or block: only `wait`, `wait_ready` and `close` do. Not thread-safe:
one thread or loop drives a handle.

`fileno()` becomes readable when `poll()` has something to do; besides, call `poll()` at least every
`next_check_s()` seconds, for the limits on time and memory. With asyncio: `loop.add_reader` and
`loop.call_later`; with threads: `wait`.
"""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from typing import Final

from app.engine import protocol
from app.engine.dialogue import FromEngine
from app.host import spec as said
from app.host.arena import Arena, Slot
from app.host.channel import Channel
from app.host.launcher import default_launcher
from app.host.spec import EngineTask, Event, HostSpec, Launcher, Process
from app.host.translate import about_task, became_ready, launch_spec, place, run_message
from app.host.watchdog import MEMORY_PERIOD_S, Watch, private_bytes
from gpugoblin.clock import Clock, SystemClock
from gpugoblin.errors import EngineError, GoblinError, SandboxError

__all__ = ["Engine"]

FRAMES_PER_POLL: Final = 64
REAP_PERIOD_S: Final = 0.02
IDLE_PERIOD_S: Final = 1.0


class Engine:
    """A running engine. Make it with `Engine.start`."""

    def __init__(
        self,
        spec: HostSpec,
        process: Process,
        channel: Channel,
        arenas: tuple[Arena, Arena],
        own_arenas: bool,
        clock: Clock,
    ) -> None:
        self.spec = spec
        self.inputs, self.outputs = arenas
        self.ready: said.Ready | None = None
        self._process = process
        self._channel = channel
        self._own_arenas = own_arenas
        self._clock = clock
        self._talk = FromEngine()
        self._events: deque[Event] = deque()
        self._tasks: dict[int, EngineTask] = {}
        self._graph_slots: dict[int, Slot] = {}
        self._last_task = 0
        self._ping_token = 0
        self._ping_since_s = 0.0
        self._watch = Watch(clock.monotonic_s(), spec.start_limit_s)
        self._memory_next_s = 0.0
        self._ending: GoblinError | None = None
        self._dead = False
        self._epoll = select.epoll()
        self._epoll.register(channel.fileno(), select.EPOLLIN)
        self._epoll.register(process.fileno(), select.EPOLLIN)
        self._renice()

    @classmethod
    def start(
        cls,
        spec: HostSpec,
        launcher: Launcher = default_launcher,
        arenas: tuple[Arena, Arena] | None = None,
        clock: Clock | None = None,
    ) -> Engine:
        """Starts an engine; `Ready` is its first event.

        Args:
            arenas: inputs and outputs made by the caller, who also closes them; else two fresh
                ones of the sizes in `spec`, closed with the engine.

        Raises:
            EngineError: `engine_start_failed`, `arena_size_invalid`.
            SandboxError: from the launcher, naming the wall that cannot be had.
        """
        channel = Channel()
        made = arenas
        try:
            if made is None:
                made = Arena.pair(spec.input_bytes, spec.output_bytes)
            process = launcher(launch_spec(spec, channel.engine_fd, *made))
        except BaseException:
            channel.close()
            for arena in made or ():
                if arenas is None:
                    arena.close()
            raise
        channel.forget_engine_end()
        return cls(spec, process, channel, made, arenas is None, clock or SystemClock())

    # -- what the parent asks ---------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """False from the moment that its end was decided or seen."""
        return self._ending is None and not self._dead

    @property
    def queued(self) -> tuple[int, ...]:
        """Numbers of the tasks without an answer; the first one is running."""
        return tuple(self._talk.outstanding)

    @property
    def free_places(self) -> int:
        """How many more tasks `submit` takes now."""
        return protocol.QUEUE_LIMIT - len(self._talk.outstanding) if self.alive else 0

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that compute. From any thread."""
        return (self._process.engine_pid,)

    def submit(self, task: EngineTask) -> int:
        """Queues a task behind the others and returns its number, which its events carry.

        Raises:
            EngineError: `engine_closed`, `engine_busy`, `arena_slot_unknown`, `arena_full` (no
                room for a large graph), `engine_message_too_large`, `engine_warms`.
        """
        if not self.alive:
            raise EngineError("engine_closed", request="task")
        if self.spec.warms and task.graph not in self.spec.warms:
            raise EngineError("engine_warms")
        if len(self._talk.outstanding) >= protocol.QUEUE_LIMIT:
            raise EngineError("engine_busy", queued=protocol.QUEUE_LIMIT)
        for arena, slots in ((self.inputs, task.inputs), (self.outputs, task.outputs)):
            for slot in slots:
                arena.view(slot)
        number = self._last_task + 1
        run = run_message(task, self._place_graph(number, task))
        try:
            sent = self._channel.send(run, number)
        except EngineError:
            self._forget_graph(number)
            raise
        if not sent:
            self._forget_graph(number)
            self._end(EngineError("engine_lied", reason="it does not read its messages"))
            raise EngineError("engine_closed", request="task")
        self._last_task = number
        if not self._talk.outstanding and self.ready is not None:
            self._watch.begins(self._clock.monotonic_s())
        self._talk.submitted(number)
        self._tasks[number] = task
        return number

    def _place_graph(self, number: int, task: EngineTask) -> protocol.Place | None:
        """Large graphs travel through the arena of inputs."""
        if len(task.graph) <= protocol.INLINE_GRAPH_BYTES:
            return None
        slot = self.inputs.allocate(len(task.graph))
        self._graph_slots[number] = slot
        self.inputs.view(slot)[:] = task.graph
        return place(slot)

    def _forget_graph(self, number: int) -> None:
        slot = self._graph_slots.pop(number, None)
        if slot is not None:
            self.inputs.free(slot)

    def cancel(self, task: int) -> None:
        """Asks for the task to be dropped; its last event still comes (`Failed` or `Done`)."""
        if not self.alive or task not in self._talk.outstanding:
            return
        is_new = self._watch.cancels(task, self._clock.monotonic_s())
        if is_new and not self._channel.send(protocol.Cancel(), task):
            self._end(EngineError("engine_lied", reason="it does not read its messages"))

    def ping(self) -> None:
        """Asks for a `Pong` event; one at a time, so it does nothing while one is awaited."""
        if self.alive and self.ready is not None and not self._talk.ping_pending:
            self._ping_token += 1
            self._ping_since_s = self._clock.monotonic_s()
            if self._channel.send(protocol.Ping(self._ping_token)):
                self._talk.pinged(self._ping_token)

    def prepare(
        self, refused: tuple[str, ...], alone: tuple[str, ...], compiled: Slot | None = None
    ) -> None:
        """Tells, before the first task, what is known of its kernels; a `Prepared` event follows.

        Args:
            compiled: of the arena of inputs: what an engine that warmed up has exported.

        Raises:
            EngineError: `arena_slot_unknown`.
        """
        if compiled is not None:
            self.inputs.view(compiled)
        where = None if compiled is None else place(compiled)
        self._question(protocol.Prepare(refused, alone, where), protocol.Prepared)

    def export(self, slot: Slot) -> None:
        """Asks an idle engine that warms up for what it compiled; an `Exported` event follows.

        Args:
            slot: of the arena of outputs.

        Raises:
            EngineError: `engine_works`: it may have seen a task, so nothing of it is kept.
        """
        if not self.spec.warms:
            raise EngineError("engine_works")
        self.outputs.view(slot)
        self._question(protocol.Export(place(slot)), protocol.Exported)

    def _question(
        self, message: protocol.Message, answer: type[protocol.Prepared] | type[protocol.Exported]
    ) -> None:
        if not self.alive:
            return
        if self._channel.send(message):
            self._talk.asked(answer)
            self._watch.asked(self._clock.monotonic_s())
        else:
            self._end(EngineError("engine_lied", reason="it does not read its messages"))

    def freeze(self) -> None:
        """SIGSTOP: keeps memory, computes nothing; the limit on time stands still."""
        if self.alive and self._watch.freeze(self._clock.monotonic_s()):
            self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT after `freeze`."""
        if self.alive and self._watch.thaw(self._clock.monotonic_s()):
            self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the engine at once; `Died` with `engine_stopped` follows from `poll`."""
        self._end(EngineError("engine_stopped", doing=self._doing()))

    # -- what the parent hears --------------------------------------------------------------

    def fileno(self) -> int:
        """A descriptor that is readable when `poll` has something to do."""
        return self._epoll.fileno()

    def next_check_s(self) -> float:
        """Call `poll` again within this many seconds even if `fileno` stays silent."""
        if self._dead:
            return IDLE_PERIOD_S if not self._events else 0.0
        if self._ending is not None:
            return REAP_PERIOD_S
        return MEMORY_PERIOD_S if self._talk.outstanding or self.ready is None else IDLE_PERIOD_S

    def poll(self) -> tuple[Event, ...]:
        """Everything that has happened since; never blocks. After `Died` nothing comes."""
        now_s = self._clock.monotonic_s()
        if self.alive:
            try:
                self._read(now_s)
            except EOFError:
                self._end(EngineError("engine_died", status="?", doing=self._doing(), stderr="?"))
            except (EngineError, SandboxError) as cause:
                self._end(cause)
        if self.alive:
            self._enforce(now_s)
        if self._ending is not None and not self._dead:
            status = self._process.wait(0.0)
            if status is not None:
                self._bury(status)
        events = tuple(self._events)
        self._events.clear()
        return events

    def wait(self, timeout_s: float) -> tuple[Event, ...]:
        """Blocks until there are events, at most `timeout_s`."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            events = self.poll()
            left_s = deadline_s - self._clock.monotonic_s()
            if events or left_s <= 0 or self._dead:
                return events
            self._epoll.poll(min(left_s, self.next_check_s()))

    def wait_ready(self) -> said.Ready:
        """Blocks until the engine is ready, at most `spec.start_limit_s`.

        Events that come with `Ready` stay for `poll`.

        Raises:
            EngineError, SandboxError: why it died instead.
        """
        while self.ready is None:
            events = self.wait(self.spec.start_limit_s + 1.0)
            kept = [event for event in events if not isinstance(event, said.Ready)]
            self._events.extendleft(reversed(kept))
            for event in events:
                if isinstance(event, said.Died):
                    raise event.error
            if self._dead:
                raise EngineError("engine_closed", request="waiting")
        return self.ready

    def _read(self, now_s: float) -> None:
        for _ in range(FRAMES_PER_POLL):
            frame = self._channel.receive()
            if frame is None:
                return
            self._talk.receive(frame, now_s)
            self._events.append(self._event(frame, now_s))

    def _event(self, frame: protocol.Frame, now_s: float) -> Event:
        message = frame.message
        if isinstance(message, protocol.Ready):
            self._process.attest()
            self.ready = became_ready(message, self._process.level)
            self._watch.answered()
            self._watch.begins(now_s)
            self._renice()
            return self.ready
        if isinstance(message, protocol.Log):
            return said.Log(message.text)
        if isinstance(message, protocol.Pong):
            return said.Pong(now_s - self._ping_since_s)
        if isinstance(message, (protocol.Prepared, protocol.Exported)):
            self._watch.answered()
            if isinstance(message, protocol.Prepared):
                return said.Prepared(message.accepted)
            return said.Exported(message.nbytes)
        if isinstance(message, protocol.Lost):
            raise EngineError("card_lost", doing=self._doing(), kernels=message.kernels)
        event = about_task(frame.task, message, self.spec.task_bytes)
        if not isinstance(event, said.Progress):
            self._tasks.pop(frame.task, None)
            self._watch.ends(frame.task)
            self._forget_graph(frame.task)
            self._watch.begins(now_s)
        return event

    # -- limits and the end -----------------------------------------------------------------

    def _doing(self) -> str:
        if self.ready is None:
            return "starting"
        if self._talk.is_asked:
            return "asked about its kernels"
        return f"computing task {self._talk.outstanding[0]}" if self.queued else "idle"

    def _enforce(self, now_s: float) -> None:
        if self._watch.is_frozen:
            return
        if self._watch.is_silent(now_s):
            limit_s, doing = self._watch.answer_limit_s, self._doing()
            words = self._process.stderr_tail()[-500:].strip() or "none"
            self._end(EngineError("engine_silent", limit_s=limit_s, doing=doing, stderr=words))
        elif self.ready is not None:
            self._enforce_on_tasks(now_s)

    def _enforce_on_tasks(self, now_s: float) -> None:
        if self._talk.outstanding:
            running = self._talk.outstanding[0]
            limit_s = self._watch.overrun_s(now_s, running, self._tasks[running].predicted_s)
            if limit_s is not None:
                self._end(EngineError("engine_overran", task=running, limit_s=limit_s))
                return
        if now_s >= self._memory_next_s:
            self._memory_next_s = now_s + MEMORY_PERIOD_S
            self._enforce_on_memory()

    def _enforce_on_memory(self) -> None:
        arenas = self.inputs.size_bytes + self.outputs.size_bytes
        used_bytes = private_bytes(self._process.engine_pid, arenas)
        limit_bytes = self.spec.memory_bytes + protocol.overhead_bytes(
            self.spec.threads, self.spec.backend
        )
        if used_bytes is not None and used_bytes > limit_bytes:
            self._end(
                EngineError("engine_over_memory", used_bytes=used_bytes, limit_bytes=limit_bytes)
            )

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.kill(self._process.engine_pid, number)
        except ProcessLookupError:
            return  # poll will see its end

    def _renice(self) -> None:
        """Every thread that the engine has; those that it makes later inherit."""
        try:
            for thread in os.listdir(f"/proc/{self._process.engine_pid}/task"):
                wished = max(self.spec.nice, os.getpriority(os.PRIO_PROCESS, int(thread)))
                os.setpriority(os.PRIO_PROCESS, int(thread), wished)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return

    def _end(self, error: GoblinError) -> None:
        if self._ending is None and not self._dead:
            self._ending = error
            # A closed channel stays readable for good; from here on only the end matters.
            self._epoll.unregister(self._channel.fileno())
            self._process.kill()

    def _bury(self, status: int) -> None:
        error = self._ending
        if error is None or error.code == "engine_died":
            error = EngineError(
                "engine_died",
                status=status,
                doing=self._doing(),
                stderr=self._process.stderr_tail()[-500:].strip() or "none",
            )
        self._dead = True
        lost = self.queued
        self._talk.outstanding.clear()
        for number in lost:
            self._forget_graph(number)
        self._channel.close()
        self._events.append(said.Died(error, lost))

    def close(self) -> None:
        """Ends the engine, waits until it is gone, and closes everything. Idempotent."""
        self.stop()
        while not self._dead:
            status = self._process.wait(1.0)
            if status is not None:
                self._bury(status)
        self._epoll.close()
        if self._own_arenas:
            self.inputs.close()
            self.outputs.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
