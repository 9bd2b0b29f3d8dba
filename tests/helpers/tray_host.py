"""The window's program on a bus and a screen of its own, and a tray host that sees its icon.

Owns: `Host`, a StatusNotifierWatcher of a few lines, as desktops have one; `Desk`, which starts the
program as a session does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from tests.helpers.desktop import StubServices
from tests.helpers.served_agent import ServedAgent

__all__ = ["Desk", "Host", "menu_with", "run", "until"]

WATCHER: Final = "org.kde.StatusNotifierWatcher"
ITEM: Final = "org.kde.StatusNotifierItem"
MENU: Final = "com.canonical.dbusmenu"
PROPERTIES: Final = "org.freedesktop.DBus.Properties"
PATIENCE_S: Final = 60.0


class Host:
    """A tray host: owns the watcher's name and knows the items that registered."""

    def __init__(self, bus: MessageBus) -> None:
        self.bus = bus
        self.items: list[str] = []
        stub = StubServices(bus)
        facts = {
            "IsStatusNotifierHostRegistered": Variant("b", True),
            "RegisteredStatusNotifierItems": Variant("as", []),
            "ProtocolVersion": Variant("i", 0),
        }
        stub.properties["/StatusNotifierWatcher", WATCHER] = facts
        stub.answers[PROPERTIES, "Get"] = lambda message: ("v", [facts[message.body[1]]])
        stub.answers[WATCHER, "RegisterStatusNotifierItem"] = self._registered
        stub.answers[WATCHER, "RegisterStatusNotifierHost"] = lambda _: ("", [])
        stub.answers["org.freedesktop.DBus.Introspectable", "Introspect"] = lambda _: (
            "s",
            ["<node/>"],
        )
        self.stub = stub

    def _registered(self, message: Message) -> tuple[str, list[Any]]:
        self.items.append(message.sender or "")
        return "", []

    async def appear(self) -> None:
        await self.stub.own(WATCHER)

    async def leave(self) -> None:
        await self.bus.release_name(WATCHER)

    async def call(self, path: str, member: str, signature: str = "", *body: Any) -> list[Any]:
        """Calls the item that registered last."""
        interface, _, name = member.rpartition(".")
        reply = await self.bus.call(
            Message(
                destination=self.items[-1], path=path, interface=interface, member=name,
                signature=signature, body=list(body),
            )
        )  # fmt: skip
        assert reply is not None
        assert reply.message_type is MessageType.METHOD_RETURN, reply.body
        return list(reply.body)

    async def property(self, name: str) -> Any:
        (value,) = await self.call("/StatusNotifierItem", f"{PROPERTIES}.Get", "ss", ITEM, name)
        return value.value

    async def menu(self) -> dict[str, int]:
        """The entries of the menu and of the menus in it, by text."""
        path = await self.property("Menu")
        _revision, layout = await self.call(path, f"{MENU}.GetLayout", "iias", 0, -1, [])
        return dict(_entries(layout))

    async def click(self, text: str) -> None:
        path = await self.property("Menu")
        number = (await self.menu())[text]
        now = int(time.time())
        await self.call(path, f"{MENU}.Event", "isvu", number, "clicked", Variant("i", 0), now)


def _entries(layout: list[Any]) -> Iterator[tuple[str, int]]:
    number, facts, below = layout
    label = facts.get("label")
    if label is not None and label.value:
        yield label.value.replace("_", ""), number
    for one in below:
        yield from _entries(one.value)


class Desk:
    """The program on its own bus and screen, before an agent that serves a recording."""

    def __init__(self, bus: str, screen: dict[str, str], served: ServedAgent) -> None:
        self.address = bus
        self.served = served
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment = {
            **kept, "QT_QPA_PLATFORM": "xcb", **screen, "DBUS_SESSION_BUS_ADDRESS": bus,
            "XDG_CURRENT_DESKTOP": "test", "NO_AT_BRIDGE": "1",
            "XDG_CONFIG_HOME": str(served.directory.parent / "config"),
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        code = "import sys; from app.commands import app; sys.exit(app(sys.argv[1:]))"
        directory = str(self.served.directory)
        return subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-c",
                code,
                "--no-agent",
                "--control-directory",
                directory,
                *words,
            ],
            env=self.environment,
        )

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()
            assert self.process.wait(PATIENCE_S) == 0


def run(work: Callable[[Host], Coroutine[Any, Any, None]], address: str) -> None:
    async def whole() -> None:
        bus = await MessageBus(bus_address=address).connect()
        try:
            await asyncio.wait_for(work(Host(bus)), PATIENCE_S * 1.5)
        finally:
            bus.disconnect()

    asyncio.run(whole())


async def until(holds: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "it did not come"
        await asyncio.sleep(0.05)


async def menu_with(host: Host, text: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(AssertionError):
            if text in await host.menu():
                return
        assert time.monotonic() < end_s, f"no entry {text!r}"
        await asyncio.sleep(0.1)
