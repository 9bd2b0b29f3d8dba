"""The doors: who is at the other end, and addresses that are taken."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import uvloop
from starlette.responses import JSONResponse

from gpugoblin.errors import NodeError
from server_stub.node.http import servers
from tests.helpers import node as _warmed  # noqa: F401 - opens what uvloop keeps for ever

__all__: list[str] = []


async def whoami(scope: Any, receive: Any, send: Any) -> None:
    await JSONResponse(list(scope["client"]))(scope, receive, send)


async def ask(connection: Any) -> bytes:
    reader, writer = connection
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer: bytes = await reader.read()
    writer.close()
    return answer


def test_the_kernel_says_who_is_calling(tmp_path: Path) -> None:
    async def play() -> bytes:
        door = servers.Door(whoami, servers.bind_unix(tmp_path / "s"))
        await door.open()
        try:
            assert door.port == 0
            assert (tmp_path / "s").stat().st_mode & 0o007 == 0
            return await ask(await asyncio.open_unix_connection(tmp_path / "s"))
        finally:
            await door.close()

    assert f'["unix-uid",{os.getuid()}]'.encode() in uvloop.run(play())


def test_a_network_client_is_an_address(tmp_path: Path) -> None:
    async def play() -> bytes:
        door = servers.Door(whoami, servers.bind_tcp("127.0.0.1", 0))
        await door.open()
        try:
            return await ask(await asyncio.open_connection("127.0.0.1", door.port))
        finally:
            await door.close()

    answer = uvloop.run(play())
    assert b'["127.0.0.1",' in answer
    assert b"unix-uid" not in answer


def test_a_socket_in_use_is_not_taken_over_and_a_stale_one_is(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = servers.bind_unix(path)
    with pytest.raises(NodeError) as caught:
        servers.bind_unix(path)
    assert caught.value.code == "address_in_use"
    first.close()
    second = servers.bind_unix(path)
    second.close()


def test_an_address_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(NodeError):
        servers.bind_unix(tmp_path / ("x" * 200))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(NodeError):
        servers.bind_tcp("127.0.0.1", taken.getsockname()[1])
