"""A link of a given rate and delay on loopback: what volunteers have, for benchmarks.

Owns: a TCP relay that hands bytes on no faster than the rate, and later by the delay. Must not:
look at them. No queue discipline, no loss: the rate of a lane is shared in the order of arrival.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["ShapedLink"]

PIECE_BYTES = 16 * 1024
WAITING_PIECES = 64


@dataclass
class _Lane:
    """One direction of a link, shared by all of its connections."""

    bytes_per_s: float
    delay_s: float
    free_s: float = 0.0
    carried: int = 0

    def due_s(self, now_s: float, nbytes: int) -> float:
        """When a piece that comes now is there."""
        self.free_s = max(now_s, self.free_s) + nbytes / self.bytes_per_s
        self.carried += nbytes
        return self.free_s + self.delay_s


@dataclass
class ShapedLink:
    """A contributor's link to a port of this machine. A context manager; `port` is its near end.

    Args:
        target: the port of the far end. bytes_per_s: of each direction. round_trip_s: both ways.
    """

    target: int
    bytes_per_s: float
    round_trip_s: float
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _ready: threading.Event = field(default_factory=threading.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._up = _Lane(self.bytes_per_s, self.round_trip_s / 2)
        self._down = _Lane(self.bytes_per_s, self.round_trip_s / 2)
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="shaped-link")

    @property
    def carried(self) -> int:
        """Bytes of both directions so far, with everything that TLS and HTTP add."""
        return self._up.carried + self._down.carried

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, near: Any, near_writer: Any) -> None:
        far, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        pairs = ((near, far_writer, self._up), (far, near_writer, self._down))
        for reader, writer, lane in pairs:
            task = asyncio.ensure_future(self._relay(reader, writer, lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: Any, writer: Any, lane: _Lane) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING_PIECES)

        async def read() -> None:
            while data := await reader.read(PIECE_BYTES):
                await pieces.put((lane.due_s(self._loop.time(), len(data)), data))
            await pieces.put((self._loop.time() + lane.delay_s, b""))

        reading = asyncio.ensure_future(read())
        try:
            while True:
                due_s, data = await pieces.get()
                await asyncio.sleep(max(0.0, due_s - self._loop.time()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # An end is gone; so is what was on its way to it.
        finally:
            reading.cancel()
            writer.close()
            await asyncio.gather(reading, return_exceptions=True)
