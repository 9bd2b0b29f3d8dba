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
