"""Counterparts for the probes' tests: a private D-Bus with stubs, an X server, a compositor.

The bus and the X server are the real programs; the compositor is a small one of ours that speaks
the wire of Wayland.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/></policy></busconfig>
"""


@contextmanager
def private_bus() -> Iterator[str]:
    """A real dbus-daemon of its own; its address."""
    with tempfile.TemporaryDirectory(prefix="bus-") as name:
        folder = Path(name)
        (folder / "bus.conf").write_text(_CONFIG.format(path=folder / "bus"))
        command = ["dbus-daemon", "--nofork", "--print-address", f"--config-file={folder}/bus.conf"]
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert daemon.stdout is not None
            address = daemon.stdout.readline().decode().strip()
            assert address
            yield address
        finally:
            daemon.terminate()
            daemon.wait()
            assert daemon.stdout is not None
            daemon.stdout.close()


Answer = Callable[[Message], tuple[str, list[Any]] | None]
"""The signature and the body of an answer; None: no answer at all."""


class StubServices:
    """Services on a bus that answer as the test says, by (interface, method)."""

    def __init__(self, bus: MessageBus) -> None:
        self.bus = bus
        self.answers: dict[tuple[str, str], Answer] = {}
        self.properties: dict[tuple[str, str], dict[str, Variant]] = {}
        self.calls: list[tuple[str, str]] = []
        bus.add_message_handler(self._call)

    def _call(self, message: Message) -> Any:
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        key = (message.interface or "", message.member or "")
        if key[0] == "org.freedesktop.DBus.Peer":
            return None
        self.calls.append(key)
        if key == ("org.freedesktop.DBus.Properties", "GetAll"):
            found = self.properties.get((message.path or "", message.body[0]))
            if found is not None:
                return Message.new_method_return(message, "a{sv}", [found])
        answer = self.answers.get(key)
        if answer is None:
            return Message.new_error(message, "org.freedesktop.DBus.Error.UnknownMethod", "no")
        given = answer(message)
        if given is None:
            return True
        return Message.new_method_return(message, *given)

    async def own(self, name: str) -> None:
        await self.bus.request_name(name)

    def signal(self, path: str, member: str, signature: str = "", *body: Any) -> None:
        interface, _, name = member.rpartition(".")
        self.bus.send(Message.new_signal(path, interface, name, signature, list(body)))

    def change(self, path: str, interface: str, **values: Variant) -> None:
        """Changes properties and says so."""
        self.properties[path, interface] |= values
        self.signal(path, "org.freedesktop.DBus.Properties.PropertiesChanged", "sa{sv}as",
                    interface, values, [])  # fmt: skip


@asynccontextmanager
async def services(address: str) -> AsyncIterator[StubServices]:
    """Stub services on a private bus."""
    bus = await MessageBus(bus_address=address).connect()
    try:
        yield StubServices(bus)
    finally:
        bus.disconnect()


def answers(signature: str, *body: Any) -> Answer:
    """Always the same answer."""
    return lambda _: (signature, list(body))


@contextmanager
def x_server() -> Iterator[dict[str, str]]:
    """A real X server without a screen; the environment of its session."""
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "640x480x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with os.fdopen(read) as file:
            number = file.readline().strip()
        assert number, "Xvfb did not start"
        yield {"DISPLAY": f":{number}", "XDG_SESSION_TYPE": "x11"}
    finally:
        server.terminate()
        server.wait()


@contextmanager
def wayland_server() -> Iterator[dict[str, str]]:
    """Weston without a screen; the environment of its session."""
    with tempfile.TemporaryDirectory(prefix="way-") as folder:
        os.chmod(folder, 0o700)
        session = {
            "XDG_RUNTIME_DIR": folder, "WAYLAND_DISPLAY": "wayland-test",
            "XDG_SESSION_TYPE": "wayland", "QT_QPA_PLATFORM": "wayland",
        }  # fmt: skip
        words = ["weston", "--backend=headless-backend.so", "--socket=wayland-test", "--no-config",
                 "--idle-time=0", "--width=1024", "--height=768"]  # fmt: skip
        server = subprocess.Popen(
            words, env={**os.environ, **session}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            end_s = time.monotonic() + 20.0
            while not Path(folder, "wayland-test").exists():
                assert server.poll() is None, "weston ended"
                assert time.monotonic() < end_s, "weston did not start"
                time.sleep(0.05)
            yield session
        finally:
            server.terminate()
            server.wait()


def type_key(display: str) -> None:
    """Presses a key on an X server, as a person would (XTEST)."""
    x11, xtst = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXtst.so.6")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(x11.XOpenDisplay(display.encode()))
    assert connection
    for is_down in (1, 0):
        xtst.XTestFakeKeyEvent(connection, 38, is_down, ctypes.c_ulong(0))
    x11.XSync(connection, 0)
    x11.XCloseDisplay(connection)


class Compositor:
    """The least of a Wayland compositor: a registry, a seat, and an idle notifier.

    Args:
        version: of the notifier; 0: it has none.
    """

    def __init__(self, path: Path, version: int = 2) -> None:
        self.path = path
        self.version = version
        self.asked: list[tuple[int, int]] = []
        self._writer: asyncio.StreamWriter | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, os.fspath(self.path))

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0.01)  # whoever serves sees the end and leaves

    def send(self, sender: int, opcode: int, body: bytes = b"") -> None:
        assert self._writer is not None
        self._writer.write(struct.pack("=II", sender, (8 + len(body)) << 16 | opcode) + body)

    def raw(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        try:
            while True:
                target, word = struct.unpack("=II", await reader.readexactly(8))
                body = await reader.readexactly((word >> 16) - 8)
                self._take(target, word & 0xFFFF, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _take(self, target: int, opcode: int, body: bytes) -> None:
        self.asked.append((target, opcode))
        if target == 1 and opcode == 1:  # get_registry
            (registry,) = struct.unpack("=I", body)
            self._announce(registry, 1, "wl_seat", 7)
            if self.version:
                self._announce(registry, 2, "ext_idle_notifier_v1", self.version)
        elif target == 1 and opcode == 0:  # sync
            self.send(struct.unpack("=I", body)[0], 0, struct.pack("=I", 0))

    def _announce(self, registry: int, name: int, interface: str, version: int) -> None:
        text = interface.encode() + b"\0"
        body = struct.pack("=II", name, len(text)) + text + b"\0" * (-len(text) % 4)
        self.send(registry, 0, body + struct.pack("=I", version))
