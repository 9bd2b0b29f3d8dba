"""A tray as old panels have one: the owner of an X selection, which icons ask to be docked.

Owns: `XembedHost`, the least of the freedesktop.org System Tray Protocol over libX11. It counts who
asks; it draws nothing.
"""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Final

__all__ = ["XembedHost"]

CLIENT_MESSAGE: Final = 33
STRUCTURE_MASK: Final = 1 << 17
REQUEST_DOCK: Final = 0


class _ClientMessage(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("kind", ctypes.c_ulong),
        ("format", ctypes.c_int), ("data", ctypes.c_long * 5),
    )  # fmt: skip


class _Event(ctypes.Union):
    _fields_ = (("type", ctypes.c_int), ("client", _ClientMessage), ("pad", ctypes.c_long * 24))


class XembedHost:
    """Owns the tray of a display's first screen while it is open."""

    def __init__(self, display: str) -> None:
        self.docked: list[int] = []
        self._x = ctypes.CDLL("libX11.so.6")
        self._x.XOpenDisplay.restype = ctypes.c_void_p
        for name in ("XDefaultRootWindow", "XCreateSimpleWindow", "XInternAtom"):
            getattr(self._x, name).restype = ctypes.c_ulong
        self._display = ctypes.c_void_p(self._x.XOpenDisplay(display.encode()))
        assert self._display.value, display
        self._opcode = self._atom(b"_NET_SYSTEM_TRAY_OPCODE")

    def __enter__(self) -> XembedHost:
        root = ctypes.c_ulong(self._x.XDefaultRootWindow(self._display))
        self._window = self._x.XCreateSimpleWindow(self._display, root, 0, 0, 64, 64, 0, 0, 0)
        selection = self._atom(b"_NET_SYSTEM_TRAY_S0")
        atom, owner = ctypes.c_ulong(selection), ctypes.c_ulong(self._window)
        self._x.XSetSelectionOwner(self._display, atom, owner, ctypes.c_ulong(0))
        event = _Event()
        event.client.type = CLIENT_MESSAGE
        event.client.window = root.value
        event.client.kind = self._atom(b"MANAGER")
        event.client.format = 32
        event.client.data[1], event.client.data[2] = selection, self._window
        self._x.XSendEvent(
            self._display, root, 0, ctypes.c_long(STRUCTURE_MASK), ctypes.byref(event)
        )
        self._x.XSync(self._display, 0)
        return self

    def look(self) -> list[int]:
        """The windows that have asked to be docked."""
        event = _Event()
        while self._x.XPending(self._display):
            self._x.XNextEvent(self._display, ctypes.byref(event))
            message = event.client
            is_dock = event.type == CLIENT_MESSAGE and message.kind == self._opcode
            if is_dock and message.data[1] == REQUEST_DOCK:
                self.docked.append(message.data[2])
        return self.docked

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._x.XCloseDisplay(self._display)

    def _atom(self, name: bytes) -> int:
        return int(self._x.XInternAtom(self._display, name, 0))
