"""A D-Bus connection for probes: calls with a deadline, signals, and no service ever started.

Owns: the connection. Must not: know a service; let an answer of the wrong shape through: every call
names the signature that it expects.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from dbus_fast import BusType, Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus

__all__ = ["Bus", "BusFault", "bus_address", "plain"]

CALL_LIMIT_S: Final = 2.0
CONNECT_LIMIT_S: Final = 3.0
_UNIX: Final = "unix:path="
_DBUS: Final = "org.freedesktop.DBus"
_PROPERTIES: Final = "org.freedesktop.DBus.Properties"

Signal = Callable[[str, list[Any]], None]
"""Takes the object's path and the plain body of a signal."""


class BusFault(Exception):
    """No bus, no such service, no answer in time, or one of another shape.

    Attributes:
        is_absent: there is no such service: nothing is wrong.
    """

    def __init__(self, what: str, *, is_absent: bool = False) -> None:
        super().__init__(what)
        self.is_absent = is_absent


def plain(value: object) -> Any:
    """A value without its variants."""
    if isinstance(value, Variant):
        return plain(value.value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def bus_address(kind: str, environment: Mapping[str, str]) -> str:
    """Where a bus listens; empty where this login has none. No bus is ever launched."""
    if kind == "system":
        return environment.get("DBUS_SYSTEM_BUS_ADDRESS", f"{_UNIX}/run/dbus/system_bus_socket")
    given = environment.get("DBUS_SESSION_BUS_ADDRESS", "")
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    return given or (f"{_UNIX}{runtime}/bus" if runtime else "")


def _listens(address: str) -> bool:
    """True when somebody takes connections at the address; an abstract one is taken at its word."""
    if not address.startswith(_UNIX):
        return address.startswith("unix:abstract=")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        knock.setblocking(False)
        try:
            knock.connect(unquote(address.removeprefix(_UNIX).partition(",")[0]))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


class Bus:
    """One connection. Made by `connect`; used in the loop's thread."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self._signals: dict[tuple[str, str], list[Signal]] = {}
        self._owners: dict[str, list[Callable[[], None]]] = {}
        bus.add_message_handler(self._heard)

    @classmethod
    async def connect(cls, kind: str, address: str) -> Bus:
        """Connects to the `system` or the `session` bus.

        Raises:
            BusFault: there is none (`is_absent`), or it does not answer.
        """
        if not _listens(address):
            raise BusFault(f"there is no {kind} bus", is_absent=True)
        bus_type = BusType.SYSTEM if kind == "system" else BusType.SESSION
        try:
            bus = MessageBus(bus_address=address, bus_type=bus_type, negotiate_unix_fd=True)
            async with asyncio.timeout(CONNECT_LIMIT_S):
                await bus.connect()
        except TimeoutError as cause:
            raise BusFault(f"the {kind} bus does not answer") from cause
        except Exception as cause:  # dbus-fast has many; none may end the probes
            raise BusFault(f"there is no {kind} bus ({cause})", is_absent=True) from cause
        return cls(bus)

    async def call(
        self,
        service: str,
        path: str,
        member: str,
        signature: str = "",
        body: list[Any] | None = None,
        answer: str = "",
    ) -> list[Any]:
        """Calls `interface.method`; the plain body of the answer.

        Args:
            member: interface and method, with a dot between.
            answer: the signature that the answer must have.

        Raises:
            BusFault: as its class says.
        """
        reply = await self._send(service, path, member, signature, body or [])
        if reply.message_type is MessageType.ERROR:
            name = reply.error_name or ""
            is_absent = name.endswith((".ServiceUnknown", ".NameHasNoOwner", ".UnknownMethod",
                                       ".UnknownObject", ".UnknownInterface"))  # fmt: skip
            raise BusFault(f"{service} refuses ({name})", is_absent=is_absent)
        if reply.signature != answer:
            raise BusFault(f"{service} answers {member} with another shape")
        return [plain(item) for item in reply.body]

    async def _send(
        self, service: str, path: str, member: str, signature: str, body: list[Any]
    ) -> Message:
        interface, _, method = member.rpartition(".")
        message = Message(
            destination=service,
            path=path,
            interface=interface,
            member=method,
            signature=signature,
            body=body,
            flags=MessageFlag.NO_AUTOSTART,
        )
        try:
            async with asyncio.timeout(CALL_LIMIT_S):
                reply = await self._bus.call(message)
        except TimeoutError as cause:
            raise BusFault(f"{service} does not answer") from cause
        except Exception as cause:  # the connection broke; see `connect`
            raise BusFault(f"the bus broke ({type(cause).__name__})") from cause
        if reply is None:
            raise BusFault(f"{service} does not answer")
        return reply

    async def take_descriptor(
        self, service: str, path: str, member: str, signature: str, body: list[Any]
    ) -> int:
        """Calls a method that answers with a descriptor, which is the caller's then.

        Raises:
            BusFault: as its class says.
        """
        reply = await self._send(service, path, member, signature, body)
        if reply.message_type is MessageType.ERROR or not reply.unix_fds:
            raise BusFault(f"{service} gives no descriptor")
        return int(reply.unix_fds[0])

    async def properties(self, service: str, path: str, interface: str) -> dict[str, Any]:
        """All properties of an interface. Raises BusFault."""
        (found,) = await self.call(
            service, path, f"{_PROPERTIES}.GetAll", "s", [interface], answer="a{sv}"
        )
        return dict(found)

    async def watch(self, interface: str, member: str, signal: Signal) -> None:
        """Calls `signal` for every such signal of anybody. Raises BusFault."""
        self._signals.setdefault((interface, member), []).append(signal)
        rule = f"type='signal',interface='{interface}',member='{member}'"
        await self.call(_DBUS, "/org/freedesktop/DBus", f"{_DBUS}.AddMatch", "s", [rule])

    async def watch_properties(self, path: str, changed: Callable[[], None]) -> None:
        """Calls `changed` when properties of an object change. Raises BusFault."""

        def signal(where: str, _: list[Any]) -> None:
            if where == path:
                changed()

        await self.watch(_PROPERTIES, "PropertiesChanged", signal)

    async def watch_owner(self, service: str, changed: Callable[[], None]) -> None:
        """Calls `changed` when a service appears or goes. Raises BusFault."""
        self._owners.setdefault(service, []).append(changed)
        if len(self._owners) == 1:
            await self.watch(_DBUS, "NameOwnerChanged", self._owner_changed)

    def _owner_changed(self, _: str, body: list[Any]) -> None:
        for changed in self._owners.get(str(body[0]), []) if body else []:
            changed()

    def _heard(self, message: Message) -> None:
        if message.message_type is not MessageType.SIGNAL:
            return
        key = (message.interface or "", message.member or "")
        for signal in self._signals.get(key, []):
            signal(message.path or "", [plain(item) for item in message.body])

    async def wait_for_end(self) -> None:
        """Returns when the connection is gone."""
        with contextlib.suppress(Exception):  # whatever ended it, it has ended
            await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it may be gone already
            self._bus.disconnect()
