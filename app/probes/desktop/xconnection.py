"""A connection to a local X server, as far as our probes need it: requests, replies, events.

Owns: the set-up with its cookie, the packets and their bounds. Must not: open a window, connect
over a network, or trust a length. Protocol: X Window System Protocol, X Version 11, appendix B.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["XConnection", "XError", "cookie", "display_number"]

SOCKETS: Final = Path("/tmp/.X11-unix")  # noqa: S108 - where X servers listen
MAX_REPLY_BYTES: Final = 256 * 1024
MAX_AUTHORITY_BYTES: Final = 1024 * 1024
LIMIT_S: Final = 3.0
MOST_WAITING: Final = 4096
COOKIE_NAME: Final = b"MIT-MAGIC-COOKIE-1"


class XError(Exception):
    """The server refused, went away or talks nonsense."""


def display_number(environment: Mapping[str, str]) -> int | None:
    """The number of the local display; None when this login has none here."""
    name = environment.get("DISPLAY", "")
    host, _, rest = name.rpartition(":")
    number = rest.partition(".")[0]
    return int(number) if host in ("", "unix") and number.isdigit() else None


def cookie(environment: Mapping[str, str], number: int) -> bytes:
    """The cookie of a display from the authority file; empty when there is none."""
    path = environment.get("XAUTHORITY") or os.path.join(
        environment.get("HOME", "/"), ".Xauthority"
    )
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_AUTHORITY_BYTES)
    except OSError:
        return b""
    at, best = 0, b""
    while at + 2 <= len(data):
        fields, at = _fields(data, at + 2)
        if len(fields) < 4:
            break
        _, wanted, name, value = fields
        if name == COOKIE_NAME and wanted in (b"", str(number).encode()):
            best = value
            if wanted:
                return best
    return best


def _fields(data: bytes, at: int) -> tuple[list[bytes], int]:
    """The four counted fields of an entry, and where the next begins."""
    fields: list[bytes] = []
    for _ in range(4):
        if at + 2 > len(data):
            return fields, len(data)
        (length,) = struct.unpack_from(">H", data, at)
        fields.append(data[at + 2 : at + 2 + length])
        at += 2 + length
    return fields, at


class XConnection:
    """One connection; `open` makes it. All methods belong to one task."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sequence = 0
        self._events: deque[bytes] = deque()
        self._next_id = 0
        self.root = 0

    @classmethod
    async def open(cls, environment: Mapping[str, str], sockets: Path = SOCKETS) -> XConnection:
        """Connects to the display that the environment names.

        Raises:
            XError: there is none, it refuses, or it does not answer.
        """
        number = display_number(environment)
        if number is None:
            raise XError("this login has no local display")
        try:
            async with asyncio.timeout(LIMIT_S):
                reader, writer = await asyncio.open_unix_connection(
                    os.fspath(sockets / f"X{number}"), limit=MAX_REPLY_BYTES
                )
                made = cls(reader, writer)
                try:
                    await made._set_up(cookie(environment, number))
                except BaseException:
                    writer.close()
                    raise
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as cause:
            raise XError(f"the X server does not answer ({cause})") from cause
        return made

    async def _set_up(self, secret: bytes) -> None:
        name = COOKIE_NAME if secret else b""
        self._writer.write(
            struct.pack("<BxHHHHxx", 0x6C, 11, 0, len(name), len(secret))
            + _padded(name)
            + _padded(secret)
        )
        status, length = struct.unpack("<BxxxxxH", await self._reader.readexactly(8))
        body = await self._reader.readexactly(length * 4)
        if status != 1:
            raise XError("the X server refuses this user")
        if len(body) < 32:
            raise XError("the X server greets with nonsense")
        (self._next_id,) = struct.unpack_from("<I", body, 4)
        (vendor,) = struct.unpack_from("<H", body, 16)
        formats = body[21]
        root_at = 32 + (vendor + 3) // 4 * 4 + 8 * formats
        if root_at + 4 > len(body):
            raise XError("the X server greets with nonsense")
        (self.root,) = struct.unpack_from("<I", body, root_at)

    def close(self) -> None:
        self._writer.close()

    def new_id(self) -> int:
        """A fresh number for something of ours."""
        self._next_id += 1
        return self._next_id

    def send(self, opcode: int, data: int, body: bytes) -> None:
        """Sends a request without waiting. `data`: the second byte."""
        body = _padded(body)
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._writer.write(struct.pack("<BBH", opcode, data, 1 + len(body) // 4) + body)

    async def ask(self, opcode: int, data: int, body: bytes) -> bytes:
        """Sends a request; the whole reply, its head of 32 bytes included.

        Raises:
            XError: it was refused, or no reply came in time.
        """
        self.send(opcode, data, body)
        wanted = self._sequence
        try:
            async with asyncio.timeout(LIMIT_S):
                while True:
                    packet = await self._packet()
                    is_ours = struct.unpack_from("<H", packet, 2)[0] == wanted
                    if packet[0] == 1 and is_ours:
                        return packet
                    if packet[0] == 0 and is_ours:
                        raise XError(f"the X server refuses request {opcode} (error {packet[1]})")
                    if packet[0] > 1:
                        self._keep(packet)
        except TimeoutError as cause:
            raise XError("the X server does not answer") from cause

    async def event(self) -> bytes:
        """The next event, 32 bytes. Errors about windows that are gone are passed over.

        Raises:
            XError: the connection ended.
        """
        while True:
            if self._events:
                return self._events.popleft()
            packet = await self._packet()
            if packet[0] > 1:
                return packet

    def _keep(self, packet: bytes) -> None:
        if len(self._events) >= MOST_WAITING:
            raise XError("the X server sends too much")
        self._events.append(packet)

    async def _packet(self) -> bytes:
        try:
            head = await self._reader.readexactly(32)
            more = 0
            if head[0] == 1 or head[0] & 0x7F == 35:  # replies and generic events are longer
                (more,) = struct.unpack_from("<I", head, 4)
            if more * 4 > MAX_REPLY_BYTES:
                raise XError("the X server sends a packet of an impossible size")
            return head + (await self._reader.readexactly(more * 4) if more else b"")
        except (OSError, asyncio.IncompleteReadError) as cause:
            raise XError("the X server closed the connection") from cause

    # -- core requests -----------------------------------------------------------------------

    async def extension(self, name: str) -> tuple[int, int]:
        """The major opcode and the first event of an extension. Raises XError."""
        data = name.encode()
        reply = await self.ask(98, 0, struct.pack("<Hxx", len(data)) + data)
        if not reply[8]:
            raise XError(f"the X server has no {name}")
        return reply[9], reply[10]

    async def atom(self, name: str) -> int:
        """The number of a name; 0 when the server never heard it."""
        data = name.encode()
        reply = await self.ask(16, 1, struct.pack("<Hxx", len(data)) + data)
        (number,) = struct.unpack_from("<I", reply, 8)
        return int(number)

    async def numbers(self, window: int, name: int) -> tuple[int, ...]:
        """A property of 32-bit numbers; empty when the window has none or is gone."""
        try:
            reply = await self.ask(20, 0, struct.pack("<IIIII", window, name, 0, 0, 256))
        except XError:
            return ()
        if reply[1] != 32:
            return ()
        (count,) = struct.unpack_from("<I", reply, 16)
        count = min(count, (len(reply) - 32) // 4)
        return struct.unpack_from(f"<{count}I", reply, 32)

    def watch_properties(self, window: int) -> None:
        """Asks for PropertyNotify events of a window."""
        self.send(2, 0, struct.pack("<III", window, 0x800, 0x400000))


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
