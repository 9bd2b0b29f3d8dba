"""ext-idle-notify-v1 of a Wayland compositor, spoken by a small client of our own.

Owns: the wire (registry, seat, notifier, notifications) and what it says: `idled` and `resumed`.
Must not: ask for anything else; trust a length. Version 2 tells input alone; version 1 counts a
program that keeps the screen awake as active, so where both are there the difference is known.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.probes.idle.source import Input

__all__ = ["IDLE_AFTER_S", "NotifierAbsent", "display_path", "watch_wayland"]

IDLE_AFTER_S: Final = 2.0
MAX_MESSAGE_BYTES: Final = 4096
MOST_GLOBALS: Final = 1024
HANDSHAKE_LIMIT_S: Final = 3.0
DISPLAY, REGISTRY, CALLBACK, SEAT, NOTIFIER, RAW, POLITE = 1, 2, 3, 4, 5, 6, 7
_HEADER: Final = struct.Struct("=II")
_NOTIFIER_NAME: Final = "ext_idle_notifier_v1"


class NotifierAbsent(Exception):
    """The compositor has no idle notifier, or no seat."""


def display_path(environment: Mapping[str, str]) -> Path | None:
    """Where the compositor listens; None when this login has none."""
    name = environment.get("WAYLAND_DISPLAY", "")
    if not name:
        return None
    if os.path.isabs(name):
        return Path(name)
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / name if runtime else None


@dataclass(slots=True)
class _State:
    """What the compositor has said. Times are Unix seconds."""

    globals: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_synced: bool = False
    has_raw: bool = False
    raw_idle_since_s: float | None = None
    polite_idle_since_s: float | None = None


async def watch_wayland(
    path: Path, now_s: Callable[[], float], tell: Callable[[Input], None]
) -> None:
    """Tells every change until the connection ends.

    Raises:
        NotifierAbsent: this compositor cannot tell.
        OSError, ValueError, EOFError, TimeoutError: it went away or talks nonsense.
    """
    reader, writer = await asyncio.open_unix_connection(os.fspath(path), limit=64 * 1024)
    state = _State()
    try:
        writer.write(_message(DISPLAY, 1, _u32(REGISTRY)) + _message(DISPLAY, 0, _u32(CALLBACK)))
        async with asyncio.timeout(HANDSHAKE_LIMIT_S):
            while not state.is_synced:
                _handle(state, *await _read(reader), now_s())
        writer.write(_requests(state))
        tell(_input(state, now_s()))
        while True:
            if _handle(state, *await _read(reader), now_s()):
                tell(_input(state, now_s()))
    except asyncio.IncompleteReadError as cause:
        raise EOFError("the compositor closed the connection") from cause
    finally:
        writer.close()


def _requests(state: _State) -> bytes:
    """Binds seat and notifier and asks for notifications."""
    if _NOTIFIER_NAME not in state.globals:
        raise NotifierAbsent("the compositor has no idle notifier")
    if "wl_seat" not in state.globals:
        raise NotifierAbsent("the compositor has no seat")
    seat_name, _ = state.globals["wl_seat"]
    name, version = state.globals[_NOTIFIER_NAME]
    version = min(2, version)
    timeout_ms = round(IDLE_AFTER_S * 1000)
    parts = [
        _message(REGISTRY, 0, _u32(seat_name) + _text("wl_seat") + _u32(1) + _u32(SEAT)),
        _message(REGISTRY, 0, _u32(name) + _text(_NOTIFIER_NAME) + _u32(version) + _u32(NOTIFIER)),
        _message(NOTIFIER, 1, _u32(POLITE) + _u32(timeout_ms) + _u32(SEAT)),
    ]
    if version >= 2:
        state.has_raw = True
        parts.append(_message(NOTIFIER, 2, _u32(RAW) + _u32(timeout_ms) + _u32(SEAT)))
    return b"".join(parts)


def _handle(state: _State, sender: int, opcode: int, body: bytes, now_s: float) -> bool:
    """Takes an event; True when idleness has changed."""
    if sender == DISPLAY and opcode == 0:
        raise ValueError("the compositor reports an error")
    if sender == REGISTRY and opcode == 0:
        name, interface, version = _global(body)
        if len(state.globals) >= MOST_GLOBALS:
            raise ValueError("the compositor announces too much")
        state.globals.setdefault(interface, (name, version))
    elif sender == CALLBACK:
        state.is_synced = True
    elif sender in (RAW, POLITE) and opcode in (0, 1):
        since_s = now_s - IDLE_AFTER_S if opcode == 0 else None
        if sender == RAW:
            state.raw_idle_since_s = since_s
        else:
            state.polite_idle_since_s = since_s
        return True
    return False


def _input(state: _State, now_s: float) -> Input:
    if not state.has_raw:
        since_s = state.polite_idle_since_s
        return Input(now_s, is_active=True) if since_s is None else Input(since_s)
    if state.raw_idle_since_s is None:
        return Input(now_s, is_active=True)
    is_awake = state.polite_idle_since_s is None
    return Input(state.raw_idle_since_s, awake_for="a program" if is_awake else "")


async def _read(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    sender, word = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    size = word >> 16
    if size < _HEADER.size or size > MAX_MESSAGE_BYTES or size % 4:
        raise ValueError("the compositor sends a message of an impossible size")
    return sender, word & 0xFFFF, await reader.readexactly(size - _HEADER.size)


def _global(body: bytes) -> tuple[int, str, int]:
    if len(body) < 12:
        raise ValueError("the compositor announces nonsense")
    name, length = struct.unpack_from("=II", body)
    padded = (length + 3) // 4 * 4
    if length < 1 or 8 + padded + 4 != len(body):
        raise ValueError("the compositor announces nonsense")
    interface = body[8 : 8 + length - 1].decode("ascii", "replace")
    (version,) = struct.unpack_from("=I", body, 8 + padded)
    return name, interface, version


def _message(target: int, opcode: int, body: bytes) -> bytes:
    return _HEADER.pack(target, (len(body) + 8) << 16 | opcode) + body


def _u32(value: int) -> bytes:
    return struct.pack("=I", value)


def _text(value: str) -> bytes:
    data = value.encode() + b"\0"
    return _u32(len(data)) + data + b"\0" * (-len(data) % 4)
