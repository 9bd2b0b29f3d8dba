"""Peers that connect and never finish, or never begin, their TLS handshake."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from starlette.responses import Response

from gpugoblin.wire import entrance, guard
from gpugoblin.wire.tls import make_self_signed
from server_stub.node.http import servers
from tests.helpers import node as _warmed  # noqa: F401 - opens what uvloop keeps for ever

__all__: list[str] = []

LIMIT_S = 20.0
"""How long anything here may take before the test fails."""

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""How a TLS handshake begins."""

Play = Callable[[servers.Door, ssl.SSLContext], Awaitable[Any]]


async def fine(scope: Any, receive: Any, send: Any) -> None:
    await Response(b"ok")(scope, receive, send)


def behind_tls(tmp_path: Path, limit: int | None, play: Play) -> Any:
    """What `play` returns, with a door that is open meanwhile."""
    files = make_self_signed(tmp_path, ["127.0.0.1"])
    context = ssl.create_default_context(cafile=str(files.certificate))

    async def run() -> Any:
        door = servers.Door(
            fine, servers.bind_tcp("127.0.0.1", 0), (files.certificate, files.key), limit
        )
        await door.open()
        try:
            return await play(door, context)
        finally:
            await door.close()

    return uvloop.run(run())


async def status(door: servers.Door, context: ssl.SSLContext) -> bytes:
    """The status of an honest request; empty when the connection is cut."""
    try:
        async with asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=context)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            line = await reader.readline()
            writer.close()
        return line.split(b" ")[1] if line else b""
    except (ConnectionError, ssl.SSLError):
        return b""


async def silent(door: servers.Door, count: int, words: bytes = b"") -> list[socket.socket]:
    """Peers that connect, say a few bytes at most, and wait."""
    made = []
    for _ in range(count):
        peer = socket.create_connection(("127.0.0.1", door.port))
        peer.sendall(words)
        peer.setblocking(False)
        made.append(peer)
        await asyncio.sleep(0.01)
    return made


async def cut(peer: socket.socket) -> bool:
    """Waits until the other end has closed."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LIMIT_S):
            while await loop.sock_recv(peer, 4096):
                pass
    except ConnectionError:
        pass
    peer.close()
    return True


def is_open(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_a_handshake_that_is_finished_is_served(tmp_path: Path) -> None:
    assert behind_tls(tmp_path, 8, status) == b"200"


@pytest.mark.parametrize("words", [b"", HELLO, b"GET / HTTP/1.1\r\n\r\n"])
def test_who_does_not_finish_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: bytes
) -> None:
    monkeypatch.setattr(entrance, "HANDSHAKE_S", 0.3)

    async def play(door: servers.Door, context: ssl.SSLContext) -> bytes:
        for peer in await silent(door, 3, words):
            assert await cut(peer)
        return await status(door, context)

    assert behind_tls(tmp_path, None, play) == b"200"


def test_unfinished_handshakes_count_and_their_time_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crowd that only connects: those beyond the limit are cut at once, the rest in time, and
    then everybody is served again."""
    monkeypatch.setattr(entrance, "HANDSHAKE_S", 1.5)
    monkeypatch.setattr(guard, "SPARE", 0)

    async def play(door: servers.Door, context: ssl.SSLContext) -> list[bytes]:
        crowd = await silent(door, 20)
        await asyncio.sleep(0.1)
        held = [peer for peer in crowd if is_open(peer)]
        assert len(held) == 6
        during = await status(door, context)
        for peer in crowd:
            assert await cut(peer)
        return [during, await status(door, context)]

    assert behind_tls(tmp_path, 6, play) == [b"", b"200"]


def test_one_sender_has_a_part_of_the_handshakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = guard.sender_of
    monkeypatch.setattr(guard, "sender_of", lambda host, proxies=frozenset(): real("192.0.2.7"))
    monkeypatch.setattr(guard, "SPARE", 0)

    async def play(door: servers.Door, context: ssl.SSLContext) -> int:
        crowd = await silent(door, 8)
        await asyncio.sleep(0.1)
        held = sum(is_open(peer) for peer in crowd)
        for peer in crowd:
            peer.close()
        return held

    assert behind_tls(tmp_path, 16, play) == 4


def test_closing_ends_handshakes_under_way(tmp_path: Path) -> None:
    async def play(door: servers.Door, context: ssl.SSLContext) -> list[socket.socket]:
        return await silent(door, 3, HELLO)

    for peer in behind_tls(tmp_path, 8, play):
        peer.settimeout(LIMIT_S)
        with contextlib.suppress(ConnectionError):
            assert peer.recv(16)[:1] in (b"", b"\x15")
        peer.close()


def test_without_descriptors_it_rests_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "REST_S", 0.1)
    failures = [OSError(24, "Too many open files")] * 2

    class Listener:
        """A listening socket whose process has no descriptor left at first."""

        def __init__(self, inner: socket.socket) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def accept(self) -> Any:
            if failures:
                raise failures.pop()
            return self._inner.accept()

    real = entrance.Entrance.__init__

    def init(self: entrance.Entrance, listener: Any, *rest: Any) -> None:
        real(self, Listener(listener), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(entrance.Entrance, "__init__", init)
    assert behind_tls(tmp_path, 8, status) == b"200"
    assert not failures


def test_who_stays_is_gone_when_the_server_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One keeps an idle connection and never answers its end, one waits for a long answer."""
    monkeypatch.setattr(servers, "GRACE_S", 0.2)
    files = make_self_signed(tmp_path, ["127.0.0.1"])
    context = ssl.create_default_context(cafile=str(files.certificate))
    cancelled = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            try:
                await asyncio.sleep(10 * LIMIT_S)
            finally:
                cancelled.append(scope["path"])
        await fine(scope, receive, send)

    def hold(port: int, path: str) -> ssl.SSLSocket:
        peer = context.wrap_socket(
            socket.create_connection(("127.0.0.1", port), LIMIT_S), server_hostname="127.0.0.1"
        )
        peer.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        if path == "/":
            assert peer.recv(4096).startswith(b"HTTP/1.1 200")
        return peer

    async def run() -> int:
        door = servers.Door(slow, servers.bind_tcp("127.0.0.1", 0), (files.certificate, files.key))
        await door.open()
        state = door._server.server_state
        peers = [await asyncio.to_thread(hold, door.port, path) for path in ("/", "/slow")]
        while not state.tasks:
            await asyncio.sleep(0.01)
        await door.close()
        left = tuple(state.connections)
        for connection in left:  # a loop that ends with one of them would hang
            connection.transport.abort()
        await asyncio.sleep(0.05)
        for peer in peers:
            peer.close()
        return len(left)

    assert uvloop.run(run()) == 0
    assert cancelled == ["/slow"]
