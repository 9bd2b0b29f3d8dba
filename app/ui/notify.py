"""Notifications of the desktop: few, replaced and never stacked.

Owns: one notification at a time (org.freedesktop.Notifications, through dbus-fast in a thread that
lives as long as it may be clicked), and the budget: at most one a day of each kind. Must not: block
its caller; be needed: whoever has no notification server loses nothing but the news.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from PySide6.QtCore import QObject, Signal

from app.control.texts import _
from app.ui.autostart import DESKTOP_ID

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Event

__all__ = ["Budget", "Kind", "Notifier"]

Kind: TypeAlias = Literal["no_tray", "trouble", "setup"]
"""What is told. In normal running only `no_tray` is, once and not each day."""

SERVICE: Final = "org.freedesktop.Notifications"
PLACE: Final = "/org/freedesktop/Notifications"
CALL_LIMIT_S: Final = 5.0
CLICKABLE_S: Final = 120.0
MAX_BYTES: Final = 4096
ONCE: Final = frozenset({"no_tray"})
CLICK: Final = "default"


class Budget:
    """When each kind was told last, on disk, so that a restart begins no new day.

    Args:
        path: of the file; by default in the state directory of the user.
        today: the day, in local time.
    """

    def __init__(self, path: Path | None = None, today: Callable[[], date] = date.today) -> None:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._path = path or Path(base) / "gpugoblin" / "window" / "told"
        self._today = today

    def spend(self, kind: Kind) -> bool:
        """Whether this kind may be told now; it counts as told then."""
        told, day = self._read(), self._today().isoformat()
        if told.get(kind) == day or (kind in ONCE and kind in told):
            return False
        told[kind] = day
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(told), encoding="utf-8")
        return True

    def _read(self) -> dict[str, str]:
        try:
            with self._path.open(encoding="utf-8") as file:
                found = json.loads(file.read(MAX_BYTES))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


class Notifier(QObject):
    """Tells the desktop something, within the budget.

    Signals:
        clicked(): somebody clicked the notification.
        untold(str, str): title and line that no notification server took.
    """

    clicked = Signal()
    untold = Signal(str, str)

    def __init__(self, budget: Budget, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._budget = budget
        self._number = 0
        self._loop: AbstractEventLoop | None = None
        self._end: Event | None = None
        self._thread: threading.Thread | None = None

    def tell(self, kind: Kind, title: str, line: str) -> bool:
        """Shows a notification in the place of the last; False when the budget is spent."""
        if not self._budget.spend(kind):
            return False
        self.close()
        self._thread = threading.Thread(
            target=self._run, args=(title, line), name="notification", daemon=True
        )
        self._thread.start()
        return True

    def close(self) -> None:
        """Hears no click any more; the notification itself stays with the desktop."""
        thread, loop, end = self._thread, self._loop, self._end
        if loop is not None and end is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended by itself
                loop.call_soon_threadsafe(end.set)
        if thread is not None:
            thread.join(CALL_LIMIT_S)
        self._thread = None

    # -- in the thread -----------------------------------------------------------------------

    def _run(self, title: str, line: str) -> None:
        import asyncio  # here: a tray that has nothing to say stays smaller without it

        try:
            asyncio.run(self._show(title, line))
        except Exception:  # whatever a bus raises: the tray itself says it then
            self.untold.emit(title, line)

    async def _show(self, title: str, line: str) -> None:
        # Here: most sessions never show one, and the library is loaded for it alone.
        import asyncio

        from dbus_fast import MessageType, Variant
        from dbus_fast.aio import MessageBus

        self._end, self._loop = asyncio.Event(), asyncio.get_running_loop()
        async with asyncio.timeout(CALL_LIMIT_S):
            bus = await MessageBus().connect()
        try:
            bus.add_message_handler(self._heard)
            rule = f"type='signal',interface='{SERVICE}'"
            await _call(bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                        "org.freedesktop.DBus", "AddMatch", "s", [rule])  # fmt: skip
            hints = {"desktop-entry": Variant("s", DESKTOP_ID)}
            body = ["gpugoblin", self._number, DESKTOP_ID, title, line,
                    [CLICK, _("Open gpugoblin")], hints, -1]  # fmt: skip
            reply = await _call(bus, SERVICE, PLACE, SERVICE, "Notify", "susssasa{sv}i", body)
            if reply.message_type is not MessageType.METHOD_RETURN:
                raise ConnectionError(str(reply.body))
            self._number = int(reply.body[0])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLICKABLE_S):
                    await self._end.wait()
        finally:
            self._loop = None
            bus.remove_message_handler(self._heard)
            bus.disconnect()
            with contextlib.suppress(Exception):  # it is gone; why is of no interest
                async with asyncio.timeout(CALL_LIMIT_S):
                    await bus.wait_for_disconnect()  # type: ignore[no-untyped-call] # dbus-fast's

    def _heard(self, message: Any) -> None:
        if message.interface != SERVICE or message.body[:1] != [self._number]:
            return
        if message.member == "ActionInvoked":
            self.clicked.emit()
        if message.member in ("ActionInvoked", "NotificationClosed") and self._end is not None:
            self._end.set()


async def _call(
    bus: Any, name: str, path: str, interface: str, member: str, signature: str, body: list[Any]
) -> Any:
    import asyncio

    from dbus_fast import Message

    call = bus.call(
        Message(
            destination=name, path=path, interface=interface, member=member,
            signature=signature, body=body,
        )
    )  # fmt: skip
    async with asyncio.timeout(CALL_LIMIT_S):
        return await call
