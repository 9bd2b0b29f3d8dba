"""Heads without end and peers that fall silent, over real connections."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import uvloop
from starlette.responses import Response

from gpugoblin.wire import guard
from server_stub.node.http import servers
from tests.helpers import node as _warmed  # noqa: F401 - opens what uvloop keeps for ever

__all__: list[str] = []


async def swallow(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await Response(b"ok")(scope, receive, send)


def answer_to(tmp_path: Path, *pieces: bytes) -> bytes:
    """What comes back; empty when the connection is cut. Whatever is sent fits into buffers."""

    async def play() -> bytes:
        door = servers.Door(swallow, servers.bind_unix(tmp_path / "s"))
        await door.open()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await asyncio.wait_for(reader.read(4096), 20.0)
        except (ConnectionResetError, BrokenPipeError):
            return b""
        finally:
            writer.close()
            await door.close()

    return uvloop.run(play())


HEAD = b"PUT / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize("piece", [b"a" * 100_000, b"X-%d: " % 7 + b"a" * 60_000 + b"\r\n"])
def test_a_head_without_end_is_cut(tmp_path: Path, piece: bytes) -> None:
    assert answer_to(tmp_path, HEAD + b"X: ", *[piece] * 40) == b""


def test_a_large_body_after_a_head_is_none_of_this(tmp_path: Path) -> None:
    head = HEAD + b"Connection: close\r\nContent-Length: 4000000\r\n\r\n"
    assert answer_to(tmp_path, head, *[b"b" * 100_000] * 40).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\nhalf"])
def test_who_falls_silent_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(guard, "SILENCE_S", 0.2)
    assert answer_to(tmp_path, sent) == b""


def test_an_idle_connection_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SILENCE_S", 0.1)

    async def play() -> list[bytes]:
        door = servers.Door(swallow, servers.bind_unix(tmp_path / "s"))
        await door.open()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        found = []
        for _ in range(2):
            writer.write(HEAD + b"\r\n")
            found.append(await reader.readuntil(b"ok"))
            await asyncio.sleep(0.4)
        writer.close()
        await door.close()
        return found

    assert len(uvloop.run(play())) == 2


def answers(tmp_path: Path, limit: int, count: int) -> list[bytes]:
    """The first line that each of `count` connections gets, made and asked one after the other."""

    async def play() -> list[bytes]:
        door = servers.Door(swallow, servers.bind_unix(tmp_path / "s"), max_connections=limit)
        await door.open()
        made = []
        found: list[bytes] = []
        for _ in range(count):
            made.append(await asyncio.open_unix_connection(tmp_path / "s"))
            await asyncio.sleep(0.01)
        for reader, writer in reversed(made):
            try:
                writer.write(HEAD + b"\r\n")
                found.insert(0, await asyncio.wait_for(reader.readline(), 20.0))
            except (ConnectionResetError, BrokenPipeError):
                found.insert(0, b"")
        for _, writer in made:
            writer.close()
        await door.close()
        return [line.split(b" ")[1] if line else line for line in found]

    return uvloop.run(play())


def test_newcomers_beyond_the_limit_are_refused_and_the_others_served(tmp_path: Path) -> None:
    assert answers(tmp_path, 2, 4) == [b"200", b"200", b"503", b"503"]


def test_far_beyond_the_limit_they_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(guard, "SPARE", 1)
    assert answers(tmp_path, 2, 5) == [b"200", b"200", b"503", b"", b""]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("192.0.2.7", [b"200", b"200", b"503"]), ("127.0.0.1", [b"200"] * 3), ("", [b"200"] * 3)],
)
def test_one_sender_has_a_part_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, expected: list[bytes]
) -> None:
    from uvicorn.protocols.http import httptools_impl

    monkeypatch.setattr(httptools_impl, "get_remote_addr", lambda transport: (host, 1))
    assert answers(tmp_path, 8, 3) == expected
    if host:
        monkeypatch.setattr(guard.GuardedProtocol, "proxies", frozenset([host]))
        assert answers(tmp_path, 8, 3) == [b"200"] * 3


@pytest.mark.parametrize(
    ("host", "sender"),
    [("::1", ""), ("::ffff:127.0.0.1", ""), ("::ffff:192.0.2.7", "192.0.2.7"),
     ("2001:db8:1:2:3::4", "20010db800010002"), ("fe80::1%eth0", "fe80000000000000"), ("x", "")],
)  # fmt: skip
def test_whose_connections_count_together(host: str, sender: str) -> None:
    assert guard.sender_of(host) == sender
