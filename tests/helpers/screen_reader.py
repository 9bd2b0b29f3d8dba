"""What a screen reader hears of our program: a real AT-SPI bus, read over D-Bus.

Owns: the accessibility bus beside a private session bus, and a walk over what an application shows
there. Names, roles and states are those of the specification (atspi-constants.h).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

__all__ = ["LAUNCHER", "Control", "Reader", "accessibility", "reader"]

LAUNCHER: Final = Path("/usr/libexec/at-spi-bus-launcher")
ACCESSIBLE: Final = "org.a11y.atspi.Accessible"
ROOT: Final = "/org/a11y/atspi/accessible/root"
REGISTRY: Final = "org.a11y.atspi.Registry"
FOCUSABLE, FOCUSED, SHOWING, ENABLED = 11, 12, 25, 8
MOST_CONTROLS: Final = 3000
PATIENCE_S: Final = 30.0


@contextmanager
def accessibility(address: str, environment: dict[str, str]) -> Iterator[None]:
    """An accessibility bus for the session bus at `address`."""
    launcher = subprocess.Popen(
        [str(LAUNCHER), "--launch-immediately"],
        env={**os.environ, **environment, "DBUS_SESSION_BUS_ADDRESS": address},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        launcher.terminate()
        launcher.wait()


@dataclass(frozen=True, slots=True)
class Control:
    """One thing that is shown, as a screen reader knows it."""

    bus: str
    path: str
    role: str
    name: str
    description: str
    states: int

    @property
    def is_showing(self) -> bool:
        return bool(self.states >> SHOWING & 1)

    @property
    def is_focusable(self) -> bool:
        return bool(self.states >> FOCUSABLE & 1) and bool(self.states >> ENABLED & 1)

    @property
    def is_focused(self) -> bool:
        return bool(self.states >> FOCUSED & 1)


class Reader:
    """Reads applications on an accessibility bus."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus

    async def controls(self, wanted: int) -> list[Control]:
        """Everything that the process `wanted` shows, a parent before its children."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    applications = await self._children(REGISTRY, ROOT)
                except LookupError:  # the registry ends while nobody is there, and comes again
                    applications = []
                for name, path in applications:
                    if await self._pid(name) == wanted:
                        return await self._walk(name, path)
                await asyncio.sleep(0.1)

    async def _walk(self, name: str, path: str) -> list[Control]:
        found: list[Control] = []
        waiting = [(name, path)]
        while waiting and len(found) < MOST_CONTROLS:
            name, path = waiting.pop()
            try:
                found.append(await self._control(name, path))
                waiting += reversed(await self._children(name, path))
            except LookupError:  # it went while we looked
                continue
        return found

    async def _control(self, name: str, path: str) -> Control:
        role, low_high = await asyncio.gather(
            self._call(name, path, ACCESSIBLE, "GetRoleName"),
            self._call(name, path, ACCESSIBLE, "GetState"),
        )
        label, description = await asyncio.gather(
            self._property(name, path, "Name"), self._property(name, path, "Description")
        )
        states = low_high[0][0] | low_high[0][1] << 32
        return Control(name, path, role[0], label, description, states)

    async def _children(self, name: str, path: str) -> list[tuple[str, str]]:
        (children,) = await self._call(name, path, ACCESSIBLE, "GetChildren")
        return [(child[0], child[1]) for child in children]

    async def _property(self, name: str, path: str, which: str) -> str:
        (value,) = await self._call(
            name, path, "org.freedesktop.DBus.Properties", "Get", "ss", ACCESSIBLE, which
        )
        return str(value.value)

    async def _pid(self, name: str) -> int:
        (pid,) = await self._call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
            "GetConnectionUnixProcessID", "s", name,
        )  # fmt: skip
        return int(pid)

    async def _call(
        self, name: str, path: str, interface: str, member: str, signature: str = "", *body: Any
    ) -> list[Any]:
        reply = await self._bus.call(
            Message(
                destination=name, path=path, interface=interface, member=member,
                signature=signature, body=list(body),
            )
        )  # fmt: skip
        if reply is None or reply.message_type is not MessageType.METHOD_RETURN:
            raise LookupError(f"{member} of {path}: {reply.body if reply else None}")
        return list(reply.body)


@asynccontextmanager
async def reader(session: str) -> AsyncIterator[Reader]:
    """A reader on the accessibility bus of a session bus."""
    asker = await MessageBus(bus_address=session).connect()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                reply = await asker.call(
                    Message(
                        destination="org.a11y.Bus", path="/org/a11y/bus",
                        interface="org.a11y.Bus", member="GetAddress",
                    )
                )  # fmt: skip
                if reply is not None and reply.message_type is MessageType.METHOD_RETURN:
                    break
                await asyncio.sleep(0.1)
    finally:
        asker.disconnect()
        await asker.wait_for_disconnect()
    bus = await MessageBus(bus_address=reply.body[0]).connect()
    try:
        yield Reader(bus)
    finally:
        bus.disconnect()
        await bus.wait_for_disconnect()
