"""The node's side of the Ray bridge: its process, started again when it ends, and its items.

Owns: one bridge process, the seats that it tells of, and the items that wait for its answers. Must
not: know jobs or leases, or import ray.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Final, Protocol

import msgspec

from gpugoblin.errors import GoblinError, NodeError, VerifyError
from server_stub.node.executors.ray_words import (
    MAX_SEATS,
    Answer,
    BridgeConfig,
    Do,
    Drop,
    Lost,
    Said,
    Seat,
    Seats,
    Trouble,
    decode_said,
    encode,
)
from server_stub.node.settings import NodeSettings
from server_stub.node.work import Failed, Reply, Work
from server_stub.node.workers.frames import LENGTH, check_length, error_of

__all__ = ["Link", "RayLink", "bridge_config"]

REST_S: Final = (1.0, 30.0)
"""Before a bridge is started again: the first pause, and the longest."""
STOP_S: Final = 10.0

log = logging.getLogger("gpugoblin.node.ray")


def bridge_config(settings: NodeSettings, catalog_hash: str) -> BridgeConfig:
    """What a bridge is started with."""
    return BridgeConfig(
        address=settings.ray_address,
        namespace="gpugoblin",
        blob_root=str(settings.blob_root),
        marker=str(settings.state / "ray.marker"),
        level=settings.engine_level,
        threads=settings.ray_threads,
        memory_bytes=settings.engine_memory_bytes,
        slot_bytes=settings.slot_bytes,
        reserve_bytes=settings.reserve_bytes,
        resource=settings.ray_resource,
        worker_dir=settings.ray_worker_dir,
        cache_bytes=settings.ray_cache_bytes,
        catalog_hash=catalog_hash,
        version=version("gpugoblin"),
    )


class Link(Protocol):
    """What the executor asks of the way to Ray."""

    @property
    def seats(self) -> Mapping[str, Seat]: ...

    @property
    def known(self) -> Mapping[str, Seat]:
        """These and those that are gone, as they were, since the node's start."""
        ...

    @property
    def trouble(self) -> NodeError | None:
        """Why there are no seats, or fewer than there could be."""
        ...

    async def start(self, changed: Callable[[], None]) -> None:
        """`changed` is called whenever seats or trouble are others."""
        ...

    async def run(self, seat: str, work: Work) -> Reply:
        """Has a seat do an item.

        Raises:
            NodeError: `ray_worker_lost`. GoblinError: the item failed, by the worker's own code.
        """
        ...

    async def stop(self) -> None: ...


class RayLink:
    """Keeps one bridge running. `start`, then `run`, then `stop`, all in one loop."""

    def __init__(
        self, config: BridgeConfig, arguments: Callable[[int], list[str]] | None = None
    ) -> None:
        self._config = config
        self._arguments = arguments or self._usual
        self._seats: dict[str, Seat] = {}
        self._known: dict[str, Seat] = {}
        self._trouble: NodeError | None = None
        self._changed: Callable[[], None] = lambda: None
        self._waiting: dict[str, asyncio.Future[Reply]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def seats(self) -> Mapping[str, Seat]:
        return self._seats

    @property
    def known(self) -> Mapping[str, Seat]:
        return self._known

    @property
    def trouble(self) -> NodeError | None:
        return self._trouble

    @property
    def process(self) -> int | None:
        """The bridge's process id, while there is one."""
        return self._process.pid if self._process is not None else None

    async def start(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._life = asyncio.create_task(self._live())

    async def stop(self) -> None:
        """Ends the bridge; whoever waits gets `ray_worker_lost`."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)

    async def run(self, seat: str, work: Work) -> Reply:
        writer = self._writer
        if seat not in self._seats or writer is None:
            raise NodeError("ray_worker_lost", reason="the machine is not there any more")
        frame = encode(Do(seat, work))
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[work.work] = answer
        try:
            with suppress(OSError, RuntimeError):  # it is gone: `_live` is about to see it
                writer.write(frame)
            reply = await answer
        except asyncio.CancelledError:
            with suppress(OSError, RuntimeError):
                writer.write(encode(Drop(work.work)))
            raise
        finally:
            if self._waiting.get(work.work) is answer:
                del self._waiting[work.work]
        if isinstance(reply, Failed):
            raise error_of(reply)
        return reply

    def _usual(self, descriptor: int) -> list[str]:
        return [
            sys.executable, "-I", "-m", "server_stub.node.executors.ray_bridge",
            "--fd", str(descriptor), "--config", msgspec.json.encode(self._config).decode(),
        ]  # fmt: skip

    async def _live(self) -> None:
        rest_s = REST_S[0]
        while True:
            had_seats = False
            try:
                reader = await self._begin()
                had_seats = await self._listen(reader)
            except (OSError, VerifyError) as cause:
                log.warning("the Ray bridge: %s", cause)
            finally:
                await self._bury()
            rest_s = REST_S[0] if had_seats else min(2 * rest_s, REST_S[1])
            await asyncio.sleep(rest_s)

    async def _begin(self) -> asyncio.StreamReader:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            reader, self._writer = await asyncio.open_unix_connection(sock=ours)
            self._process = await asyncio.create_subprocess_exec(
                *self._arguments(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={
                    **os.environ,
                    "RAY_DISABLE_IMPORT_WARNING": "1",
                    "RAY_USAGE_STATS_ENABLED": "0",
                },
                cwd="/",
                pass_fds=(theirs.fileno(),),
            )
        finally:
            theirs.close()
        return reader

    async def _listen(self, reader: asyncio.StreamReader) -> bool:
        """Until the bridge ends; whether it ever had a seat."""
        had_seats = False
        while True:
            try:
                size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
                check_length(size)
                said = decode_said(await reader.readexactly(size))
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return had_seats
            self._hear(said)
            had_seats = had_seats or bool(self._seats)

    def _hear(self, said: Said) -> None:
        match said:
            case Seats():
                self._seats = {seat.seat: seat for seat in said.seats}
                for name, seat in self._seats.items():
                    self._known.pop(name, None)  # the newest last
                    self._known[name] = seat
                while len(self._known) > MAX_SEATS:
                    del self._known[next(iter(self._known))]
                self._changed()
            case Answer():
                self._settle(said.reply.work, said.reply)
            case Lost():
                self._settle(said.work, NodeError("ray_worker_lost", reason=said.reason))
            case Trouble():
                self._trouble = _error(said)
                if self._trouble is not None:
                    log.warning("%s", self._trouble)
                self._changed()

    def _settle(self, work: str, outcome: Reply | NodeError) -> None:
        answer = self._waiting.get(work)
        if answer is None or answer.done():
            return
        if isinstance(outcome, NodeError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    async def _bury(self) -> None:
        """Ends the process, and tells everybody who waits for it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        process = self._process
        if process is not None:
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except (TimeoutError, asyncio.CancelledError) as cause:
                process.kill()
                await process.wait()
                if isinstance(cause, asyncio.CancelledError):
                    raise
            finally:
                self._process = None
                self._forget()

    def _forget(self) -> None:
        self._seats = {}
        for work in list(self._waiting):
            self._settle(work, NodeError("ray_worker_lost", reason="the way to Ray was cut"))
        if self._trouble is None:
            self._trouble = NodeError(
                "ray_unreachable", address=self._config.address, reason="its bridge ended"
            )
        self._changed()


def _error(trouble: Trouble) -> NodeError | None:
    if not trouble.code:
        return None
    try:
        return NodeError(trouble.code, **trouble.fields)
    except (LookupError, ValueError, GoblinError) as cause:
        reason = f"{trouble.code}: {cause}"[:500]
        return NodeError("ray_unreachable", address="-", reason=reason)
