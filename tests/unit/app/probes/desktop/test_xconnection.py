"""The X wire: a real server, cookies, and servers that talk nonsense."""

from __future__ import annotations

import asyncio
import shutil
import struct
from pathlib import Path

import pytest

from app.probes.desktop.xconnection import XConnection, XError, cookie, display_number
from tests.helpers.desktop import x_server

needs_x = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="no Xvfb on this machine")


@pytest.mark.parametrize(
    ("display", "number"),
    [(":0", 0), (":12.1", 12), ("unix:3", 3), ("host:0", None), ("", None), (":x", None)],
)
def test_only_local_displays(display: str, number: int | None) -> None:
    assert display_number({"DISPLAY": display}) == number


def entry(number: bytes, name: bytes, value: bytes) -> bytes:
    fields = (b"host", number, name, value)
    return b"\1\0" + b"".join(struct.pack(">H", len(each)) + each for each in fields)


def test_cookies(tmp_path: Path) -> None:
    path = tmp_path / "authority"
    path.write_bytes(
        entry(b"1", b"MIT-MAGIC-COOKIE-1", b"one")
        + entry(b"0", b"XDM-AUTHORIZATION-1", b"no")
        + entry(b"0", b"MIT-MAGIC-COOKIE-1", b"zero")
        + b"\1\0\xff\xff"
    )
    environment = {"XAUTHORITY": str(path)}
    assert cookie(environment, 0) == b"zero"
    assert cookie(environment, 1) == b"one"
    assert cookie(environment, 2) == b""
    assert cookie({"HOME": str(tmp_path)}, 0) == b""


@needs_x
def test_a_real_server() -> None:
    async def script(environment: dict[str, str]) -> None:
        connection = await XConnection.open(environment)
        major, _ = await connection.extension("SYNC")
        assert major
        with pytest.raises(XError, match="has no NOTHING"):
            await connection.extension("NOTHING")
        assert await connection.numbers(connection.root, await connection.atom("NO_SUCH")) == ()
        assert await connection.numbers(0xDEAD, 1) == ()
        connection.close()

    with x_server() as environment:
        asyncio.run(script(environment))


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(XError, match="does not answer"):
        asyncio.run(XConnection.open({"DISPLAY": ":77"}, tmp_path))
    with pytest.raises(XError, match="no local display"):
        asyncio.run(XConnection.open({}, tmp_path))


@pytest.mark.parametrize(
    "greeting",
    [
        b"\0" * 8,  # it refuses
        b"\1" + b"\0" * 5 + b"\1\0" + b"\0" * 4,  # too short a greeting
        b"\1" + b"\0" * 5 + b"\x0a\0" + b"\xff" * 40,  # a vendor that is longer than all
        b"\1\0\0",
    ],
)
def test_a_server_that_talks_nonsense(tmp_path: Path, greeting: bytes) -> None:
    async def script() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(greeting)
            writer.close()

        server = await asyncio.start_unix_server(serve, str(tmp_path / "X0"))
        try:
            with pytest.raises(XError):
                await XConnection.open({"DISPLAY": ":0"}, tmp_path)
        finally:
            server.close()

    asyncio.run(script())
