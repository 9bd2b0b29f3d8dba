"""A recording hop: it ends TLS, keeps a copy of every byte, and passes it on.

Owns: one listener and its connections, in a thread of its own. The parties pin the hop's self-made
certificate, so that nothing in the product is changed for being listened to. What it keeps is the
traffic before encryption, by connection and direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from gpugoblin.wire.tls import make_self_signed
from tests.helpers.network import Place

__all__ = ["Flow", "Hop"]

T = TypeVar("T")

PIECE_BYTES: Final = 256 * 1024
GOODBYE_S: Final = 0.5
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Flow:
    """What one side of one connection said."""

    name: str
    data: bytearray = field(default_factory=bytearray)


class Hop:
    """Listens on the loopback (TLS) or on a Unix socket; a context manager.

    Args:
        name: of the flows.
        directory: for the certificate.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self._name = name
        self._directory = directory
        self._flows: list[Flow] = []
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"hop {name}")

    def __enter__(self) -> Hop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def before(self, place: Place) -> Place:
        """Listens in front of an HTTP or HTTPS server; where the hop is."""
        files = make_self_signed(self._directory / self._name, ["127.0.0.1"])
        outside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        outside.load_cert_chain(files.certificate, files.key)
        target = urlsplit(place.address)
        inside: ssl.SSLContext | None = None
        if target.scheme == "https":
            inside = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            inside.check_hostname = False
            inside.verify_mode = ssl.CERT_NONE  # it is this test's own server

        def connect() -> Awaitable[Streams]:
            return asyncio.open_connection(target.hostname, target.port, ssl=inside)

        async def listen() -> int:
            server = await asyncio.start_server(
                self._accept(connect), "127.0.0.1", 0, ssl=outside, backlog=256
            )
            self._servers.append(server)
            port: int = server.sockets[0].getsockname()[1]
            return port

        return Place(f"https://127.0.0.1:{self._do(listen())}", files.sha256)

    def before_socket(self, path: Path, target: Path) -> None:
        """Listens at `path` in front of the Unix socket `target`."""

        async def listen() -> None:
            accept = self._accept(lambda: asyncio.open_unix_connection(str(target)))
            self._servers.append(await asyncio.start_unix_server(accept, str(path)))

        self._do(listen())

    def flows(self) -> list[Flow]:
        """A copy of what was said so far."""

        async def copy() -> list[Flow]:
            return [Flow(flow.name, bytearray(flow.data)) for flow in self._flows]

        return self._do(copy())

    def forget(self) -> None:
        """Later `flows` begin here."""

        async def clear() -> None:
            for flow in self._flows:
                flow.data.clear()

        self._do(clear())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    def _accept(
        self, connect: Callable[[], Awaitable[Streams]]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)
            number = len(self._flows) // 2
            asked = Flow(f"{self._name} connection {number}, asked")
            answered = Flow(f"{self._name} connection {number}, answered")
            self._flows += (asked, answered)
            try:
                behind, ahead = await connect()
            except OSError:
                _abort(writer)
                return
            pumps = [
                asyncio.create_task(_pump(reader, ahead, asked)),
                asyncio.create_task(_pump(behind, writer, answered)),
            ]
            try:
                # HTTP over keep-alive connections: once one side has gone, nothing is under way.
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                for end in (writer, ahead):
                    if task is not None and task.cancelling():
                        # asyncio closes a cancelled handler's transport itself; of a TLS transport
                        # that was closed twice, abort would do nothing any more.
                        _abort(end)
                        continue
                    end.close()
                    # No wait for the other side's goodbye, which an idle peer never sends.
                    asyncio.get_running_loop().call_later(GOODBYE_S, _abort, end)

        return accept

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(GOODBYE_S + 0.1)


def _abort(end: asyncio.StreamWriter) -> None:
    with contextlib.suppress(AttributeError):  # of what was closed twice, in Python 3.11.2
        end.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, flow: Flow) -> None:
    try:
        while piece := await source.read(PIECE_BYTES):
            flow.data.extend(piece)
            sink.write(piece)
            await sink.drain()
    except OSError:
        return  # a party that was killed
