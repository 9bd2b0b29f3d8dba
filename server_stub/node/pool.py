"""The worker processes of a lab node, as the service sees them.

Owns: starting them on first use, handing out items by priority, starting them again when they died
and sending again what they had, ending them. Must not: touch an array or a blob; understand an item
beyond its kind.

Items are idempotent, so a worker that dies costs time only. An item that had begun at a death goes
again, alone; one that ends its worker three times is given up. One that was only waiting there goes
again as if nothing had been; when worker after worker ends before it begins anything, it is given
up, too.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from gpugoblin.errors import GoblinError, VerifyError
from gpugoblin.plan.spec import Limits
from gpugoblin.units import MIB
from server_stub.node.work import (
    Begun,
    Check,
    Compare,
    Compute,
    Describe,
    Failed,
    Fold,
    Prepare,
    Recompute,
    Reply,
    Work,
)
from server_stub.node.workers.frames import (
    LENGTH,
    check_length,
    decode_reply,
    encode_frame,
    error_of,
)

__all__ = ["PoolConfig", "WorkerPool"]

Kind = Literal["check", "validator", "local"]

DEATHS: Final = 3
BARREN: Final = 5
"""Lives in a row that began nothing: then workers cannot work on this machine."""
RESTART_S: Final = 0.2
STOP_S: Final = 5.0
_WINDOW: Final[dict[Kind, int]] = {"check": 2, "validator": 2, "local": 4}
_PRIORITY: Final[dict[type, int]] = {
    Fold: 0,
    Recompute: 0,
    Check: 1,
    Compare: 1,
    Describe: 1,
    Compute: 1,
    Prepare: 2,
}
_TAIL_BYTES: Final = 2000

log = logging.getLogger("gpugoblin.node.pool")


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """What the pool may start.

    Args:
        blob_root: the root of the node's `BlobStore`.
        level: walls of the lab's engines; `none` only for the user's own jobs.
        local: whether a local engine computes; else `Compute` is refused.
        engine_memory_bytes: inputs, outputs and intermediates of the largest task.
        slot_bytes: largest single tensor of a task.
        cache_bytes: inputs that may stay in the local engine's arena between tasks.
        waiting: items that may wait; more callers of `run` are held back.
    """

    state_dir: Path
    blob_root: Path
    level: Literal["full", "reduced", "none"] = "full"
    local: bool = True
    engine_threads: int = 1
    engine_memory_bytes: int = 512 * MIB
    slot_bytes: int = 256 * MIB
    cache_bytes: int = 384 * MIB
    check_workers: int = 1
    validators: int = 1
    reserve_bytes: int = 64 * MIB
    waiting: int = 1024

    def limits(self) -> Limits:
        """What plans for the local engine must respect."""
        return Limits(self.engine_memory_bytes, self.engine_threads, self.slot_bytes)

    def arguments(self, kind: Kind, descriptor: int) -> list[str]:
        """The command line of a worker."""
        return [
            sys.executable, "-I", "-m", "server_stub.node.worker",
            "--fd", str(descriptor), "--kind", kind, "--parent", str(os.getpid()),
            "--state", str(self.state_dir), "--blobs", str(self.blob_root),
            "--level", self.level, "--threads", str(self.engine_threads),
            "--memory-bytes", str(self.engine_memory_bytes),
            "--cache-bytes", str(self.cache_bytes),
            "--reserve-bytes", str(self.reserve_bytes),
        ]  # fmt: skip


@dataclass(slots=True, eq=False)
class _Ticket:
    """An item on its way.

    Args:
        begun: the worker that has it now took it up.
        deaths: workers that ended after they had begun it.
        barren: workers that had it and ended without having begun anything.
    """

    work: Work
    answer: asyncio.Future[Reply]
    priority: int
    order: int
    begun: bool = False
    deaths: int = 0
    barren: int = 0

    def __lt__(self, other: _Ticket) -> bool:
        return (self.priority, self.order) < (other.priority, other.order)


@dataclass(slots=True, eq=False)
class _Seat:
    """One worker process, or the place where it will be."""

    kind: Kind
    process: asyncio.subprocess.Process | None = None
    writer: asyncio.StreamWriter | None = None
    under_way: dict[str, _Ticket] = field(default_factory=dict)
    tail: bytearray = field(default_factory=bytearray)
    life: asyncio.Task[None] | None = None
    is_ending: bool = False
    has_begun: bool = False

    def takes(self, ticket: _Ticket) -> bool:
        """Suspects go alone, so that the next death names the culprit."""
        if self.is_ending or ticket.work.work in self.under_way:
            return False
        if ticket.deaths or any(other.deaths for other in self.under_way.values()):
            return not self.under_way
        return len(self.under_way) < _WINDOW[self.kind]


class _Crew:
    """All workers of one kind and the items that wait for them."""

    def __init__(self, config: PoolConfig, kind: Kind, size: int) -> None:
        self._config = config
        self._kind: Kind = kind
        self._waiting: list[_Ticket] = []
        self._seats = [_Seat(kind) for _ in range(size)]
        self._stopping = False

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers that live."""
        return [
            seat.process.pid
            for seat in self._seats
            if seat.process is not None and seat.process.returncode is None
        ]

    def put(self, ticket: _Ticket) -> None:
        heapq.heappush(self._waiting, ticket)
        self._dispatch()

    def _dispatch(self) -> None:
        while self._waiting and not self._stopping:
            ticket = self._waiting[0]
            if ticket.answer.done():  # its caller was cancelled
                heapq.heappop(self._waiting)
                continue
            seats = [seat for seat in self._seats if seat.takes(ticket)]
            if not seats:
                return
            heapq.heappop(self._waiting)
            seat = min(seats, key=lambda one: len(one.under_way))
            seat.under_way[ticket.work.work] = ticket
            if seat.life is None:
                seat.life = asyncio.create_task(self._live(seat))
            elif seat.writer is not None:
                self._send(seat, ticket)

    def _send(self, seat: _Seat, ticket: _Ticket) -> None:
        if seat.writer is None:
            return
        try:
            frame = encode_frame(ticket.work)
        except GoblinError as error:
            del seat.under_way[ticket.work.work]
            _fail(ticket, error)
            return
        # A RuntimeError is uvloop's word for a transport that has closed by itself: the worker is
        # gone, `_listen` is about to see it, and what it had is sent to the next one.
        with suppress(OSError, RuntimeError):
            seat.writer.write(frame)

    async def _live(self, seat: _Seat) -> None:
        """One life of a worker, from its first item to its end."""
        reason = ""
        try:
            reader = await self._start(seat)
            for ticket in list(seat.under_way.values()):
                self._send(seat, ticket)
            await self._listen(seat, reader)
        except (OSError, VerifyError) as cause:
            reason = str(cause)
        seat.is_ending = True
        await self._reap(seat)
        self._bury(seat, reason)
        if not self._stopping:
            await asyncio.sleep(RESTART_S)
            seat.life, seat.is_ending = None, False
            self._dispatch()

    async def _start(self, seat: _Seat) -> asyncio.StreamReader:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            reader, seat.writer = await asyncio.open_unix_connection(sock=ours)
            seat.process = await asyncio.create_subprocess_exec(
                *self._config.arguments(seat.kind, theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=_environment(),
                cwd="/",
                pass_fds=(theirs.fileno(),),
            )
        finally:
            theirs.close()
        return reader

    async def _listen(self, seat: _Seat, reader: asyncio.StreamReader) -> None:
        words = asyncio.create_task(self._hear(seat))
        try:
            while True:
                try:
                    size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
                    check_length(size)
                    reply = decode_reply(await reader.readexactly(size))
                except (asyncio.IncompleteReadError, ConnectionResetError):
                    return
                if isinstance(reply, Begun):
                    seat.has_begun = True
                    if reply.work in seat.under_way:
                        seat.under_way[reply.work].begun = True
                    continue
                ticket = seat.under_way.pop(reply.work, None)
                if ticket is not None:
                    _answer(ticket, reply)
                self._dispatch()
        finally:
            seat.is_ending = True  # nothing more is given to this process
            if seat.process is not None and seat.process.returncode is None and self._stopping:
                await _within(words, STOP_S)
            else:
                await _within(words, 1.0)

    async def _hear(self, seat: _Seat) -> None:
        """The worker's log lines go into ours; the last of them explain a death."""
        stream = seat.process.stderr if seat.process is not None else None
        if stream is None:
            return
        while part := await stream.read(4096):
            seat.tail += part
            del seat.tail[:-_TAIL_BYTES]
            for line in part.decode("utf-8", "replace").splitlines():
                log.info("%s", line)

    async def _reap(self, seat: _Seat) -> None:
        if seat.writer is not None:
            seat.writer.close()
        process = seat.process
        if process is None:
            return
        try:
            async with asyncio.timeout(STOP_S if self._stopping else 1.0):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _bury(self, seat: _Seat, reason: str) -> None:
        status = seat.process.returncode if seat.process is not None else None
        words = seat.tail.decode("utf-8", "replace").strip()[-300:]
        told = reason or words or f"exit status {status}"
        lost = list(seat.under_way.values())
        seat.under_way.clear()
        seat.process, seat.writer = None, None
        seat.tail.clear()
        if not self._stopping:
            log.warning("the %s worker ended (status %s): %s", seat.kind, status, told)
        for ticket in lost:
            ticket.deaths += ticket.begun
            ticket.barren += not seat.has_begun
            ticket.begun = False
            error = _given_up(ticket, seat.kind, told)
            if error is None:
                heapq.heappush(self._waiting, ticket)
            else:
                _fail(ticket, error)
        seat.has_begun = False

    async def stop(self) -> None:
        """Closes the sockets, waits for the workers, kills those that stay."""
        self._stopping = True
        lives = [seat.life for seat in self._seats if seat.life is not None]
        for seat in self._seats:
            if seat.writer is not None:
                seat.writer.close()
        if lives:
            await asyncio.wait(lives, timeout=STOP_S + 2.0)
        for seat in self._seats:
            if seat.process is not None and seat.process.returncode is None:
                seat.process.kill()
                await seat.process.wait()
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        for ticket in (*self._waiting, *(t for s in self._seats for t in s.under_way.values())):
            _fail(ticket, VerifyError("pool_stopped", work=ticket.work.work))


class WorkerPool:
    """The pool. `start`, then `run` from the loop that started it, then `stop`."""

    def __init__(self, config: PoolConfig) -> None:
        self._config = config
        self._crews: dict[Kind, _Crew] = {}
        self._order = itertools.count()
        self._room = asyncio.Semaphore(config.waiting)

    async def start(self) -> None:
        """Makes the crews. Processes start with their first items."""
        sizes: dict[Kind, int] = {
            "check": self._config.check_workers,
            "validator": self._config.validators,
            "local": 1 if self._config.local else 0,
        }
        self._crews = {kind: _Crew(self._config, kind, size) for kind, size in sizes.items()}

    async def run(self, work: Work) -> Reply:
        """Has an item done, however many workers die over it.

        Raises:
            GoblinError: the item failed, with the worker's own code; `item_kills_worker`,
                `pool_stopped`.
        """
        kind: Kind = (
            "local"
            if isinstance(work, Compute)
            else "validator"
            if isinstance(work, Recompute)
            else "check"
        )
        crew = self._crews.get(kind)
        if crew is None:
            raise VerifyError("pool_stopped", work=work.work)
        if kind == "local" and not self._config.local:
            raise VerifyError("item_failed", reason="this node has no local engine")
        async with self._room:
            answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            crew.put(_Ticket(work, answer, _PRIORITY[type(work)], next(self._order)))
            reply = await answer
        if isinstance(reply, Failed):
            raise error_of(reply)
        return reply

    def processes(self) -> list[int]:
        """Process ids of all workers that live."""
        return [pid for crew in self._crews.values() for pid in crew.processes]

    async def stop(self) -> None:
        """Ends all workers; whoever still waits gets `pool_stopped`."""
        crews, self._crews = self._crews, {}
        await asyncio.gather(*(crew.stop() for crew in crews.values()))


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {**kept, **dict.fromkeys(threads, "1"), "MALLOC_ARENA_MAX": "2"}


def _given_up(ticket: _Ticket, kind: Kind, told: str) -> VerifyError | None:
    """Why an item is not sent again; None when it is."""
    if ticket.deaths >= DEATHS:
        return VerifyError(
            "item_kills_worker", deaths=ticket.deaths, work=ticket.work.work,
            kind=type(ticket.work).__name__, reason=told,
        )  # fmt: skip
    if ticket.barren >= BARREN:
        return VerifyError("worker_does_not_start", kind=kind, times=ticket.barren, reason=told)
    return None


def _answer(ticket: _Ticket, reply: Reply) -> None:
    if not ticket.answer.done():
        ticket.answer.set_result(reply)


def _fail(ticket: _Ticket, error: GoblinError) -> None:
    if not ticket.answer.done():
        ticket.answer.set_exception(error)


async def _within(task: asyncio.Task[None], limit_s: float) -> None:
    """Waits for a task that should end by itself; cancels it when it does not."""
    done, _ = await asyncio.wait({task}, timeout=limit_s)
    if not done:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
