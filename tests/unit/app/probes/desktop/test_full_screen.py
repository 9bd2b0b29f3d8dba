"""The program that fills the screen, on a real X server; the test stands for the window manager."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct

import pytest

from app.probes.desktop.full_screen import FullScreen
from app.probes.desktop.xconnection import XConnection
from tests.helpers.desktop import x_server

pytestmark = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="no Xvfb on this machine")


class Manager:
    """Makes a window and says of it what window managers say."""

    def __init__(self, connection: XConnection) -> None:
        self.x = connection
        self.window = connection.new_id()

    async def begin(self) -> None:
        self.atoms = {
            name: await self._intern(name)
            for name in ("_NET_ACTIVE_WINDOW", "_NET_WM_STATE", "_NET_WM_STATE_FULLSCREEN",
                         "_NET_WM_PID")
        }  # fmt: skip
        self.x.send(
            1, 0, struct.pack("<IIhhHHHHII", self.window, self.x.root, 0, 0, 9, 9, 0, 1, 0, 0)
        )

    async def _intern(self, name: str) -> int:
        data = name.encode()
        reply = await self.x.ask(16, 0, struct.pack("<Hxx", len(data)) + data)
        return int(struct.unpack_from("<I", reply, 8)[0])

    async def put(self, window: int, name: str, kind: int, *values: int) -> None:
        data = struct.pack(f"<{len(values)}I", *values)
        head = struct.pack("<IIIBxxxI", window, self.atoms[name], kind, 32, len(values))
        self.x.send(18, 0, head + data)
        await self.x.atom("ATOM")  # what was sent has arrived


def test_full_screens_come_and_go() -> None:
    async def script(environment: dict[str, str]) -> list[str]:
        manager = Manager(await XConnection.open(environment))
        await manager.begin()
        await manager.put(manager.window, "_NET_WM_PID", 6, os.getpid())
        connection = await XConnection.open(environment)
        screen = FullScreen(connection, lambda pid: "me" if pid == os.getpid() else "")
        told = [await screen.start()]

        async def next_told() -> None:
            while True:
                found = await screen.take(await connection.event())
                if found is not None:
                    told.append(found)
                    return

        await manager.put(manager.x.root, "_NET_ACTIVE_WINDOW", 33, manager.window)
        await asyncio.wait_for(next_told(), 5)
        full = manager.atoms["_NET_WM_STATE_FULLSCREEN"]
        await manager.put(manager.window, "_NET_WM_STATE", 4, full)
        await asyncio.wait_for(next_told(), 5)
        await manager.put(manager.window, "_NET_WM_STATE", 4)
        await asyncio.wait_for(next_told(), 5)
        connection.close()
        manager.x.close()
        return told

    with x_server() as environment:
        assert asyncio.run(script(environment)) == ["", "", "me", ""]
