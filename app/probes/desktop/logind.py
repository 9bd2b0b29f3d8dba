"""logind: sessions, locked screens, what forbids idleness, and sleep.

Owns: the reading of them, and the delay that lets an engine end before sleep. Must not: keep the
machine awake.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.probes.desktop.bus import Bus, BusFault
from app.probes.idle.merge import Desktop
from app.probes.idle.source import Input

__all__ = ["Logind", "Seen", "Session", "desktop_of"]

SERVICE: Final = "org.freedesktop.login1"
MANAGER: Final = "/org/freedesktop/login1"
INTERFACE: Final = "org.freedesktop.login1.Manager"
SESSION: Final = "org.freedesktop.login1.Session"
MOST_SESSIONS: Final = 64
DESKTOPS: Final = ("x11", "wayland", "mir")


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a user, as far as lending cares."""

    user: int
    is_desktop: bool
    is_active: bool
    is_remote: bool
    is_locked: bool
    is_idle: bool
    idle_since_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What sessions say: about desktops, and the hints of idleness by whose they are."""

    desktop: Desktop
    own_hint: Input | None
    others: Input | None
    fault: str = ""
    silent: tuple[int, ...] = ()
    """The user of each desktop in front that is another's and says nothing."""


def session_of(user: int, found: dict[str, Any]) -> Session | None:
    """A session from its properties; None for greeters and services."""
    if found["Class"] not in ("user", "user-early", "user-light") or found["State"] == "closing":
        return None
    return Session(
        user,
        found["Type"] in DESKTOPS,
        bool(found["Active"]),
        bool(found["Remote"]),
        bool(found.get("LockedHint", False)),
        bool(found["IdleHint"]),
        int(found["IdleSinceHint"]) / 1e6,
    )


def desktop_of(
    sessions: list[Session], user: int, awake_for: str, locked_since_s: float | None
) -> Seen:
    """What the sessions mean for an agent of this user.

    Another user's desktop that is in front has no source of ours: its hint is believed when it says
    idle, and when it says nothing, nothing is known.
    """
    desktops = [session for session in sessions if session.is_desktop]
    own = [session for session in desktops if session.user == user]
    others = [session for session in desktops if session.user != user and session.is_active]
    is_locked = bool(desktops) and all(session.is_locked for session in desktops)
    desktop = Desktop(
        is_there=bool(own),
        locked_since_s=locked_since_s if is_locked else None,
        awake_for=awake_for,
        is_remote=any(session.is_remote and not session.is_idle for session in own),
    )
    hints = [session.idle_since_s for session in own if session.is_idle]
    own_hint = Input(max(hints)) if own and len(hints) == len(own) else None
    silent = [session for session in others if not session.is_idle and not session.is_locked]
    idle = [session.idle_since_s for session in others if session.is_idle]
    fault = ""
    if silent:
        fault = f"user {silent[0].user} has a desktop in front, and no source of ours sees it"
    users = tuple(session.user for session in silent)
    return Seen(desktop, own_hint, Input(max(idle)) if idle else None, fault, users)


class Logind:
    """Follows logind on a system bus.

    Args:
        user: whose agent this is.
        now_s: Unix seconds.
        tell: takes what was seen after every change.
        sleep: told when the machine is about to sleep, and when it has woken.
        delays_sleep: sleep shall wait until `let_sleep`.
    """

    def __init__(
        self,
        bus: Bus,
        user: int,
        now_s: Callable[[], float],
        tell: Callable[[Seen], None],
        sleep: Callable[[bool], None],
        delays_sleep: bool = True,
    ) -> None:
        self._bus = bus
        self._user = user
        self._now_s = now_s
        self._tell = tell
        self._sleep = sleep
        self._delays_sleep = delays_sleep
        self._locked_since_s: float | None = None
        self._delay = -1
        self.poke = asyncio.Event()

    async def begin(self) -> None:
        """Asks for signals. Raises BusFault."""
        for member in ("SessionNew", "SessionRemoved"):
            await self._bus.watch(INTERFACE, member, lambda *_: self.poke.set())
        await self._bus.watch(INTERFACE, "PrepareForSleep", self._prepare)
        await self._bus.watch("org.freedesktop.DBus.Properties", "PropertiesChanged", self._changed)

    def _changed(self, path: str, _: list[Any]) -> None:
        if path.startswith(MANAGER):
            self.poke.set()

    def _prepare(self, _: str, body: list[Any]) -> None:
        begins = bool(body and body[0])
        self._sleep(begins)
        if not begins:
            self.poke.set()

    async def _take_delay(self) -> None:
        """Without it an engine ends while the machine falls asleep, not before."""
        if self._delay < 0 and self._delays_sleep:
            words = ["sleep", "gpugoblin", "An engine ends before sleep", "delay"]
            with contextlib.suppress(BusFault):
                self._delay = await self._bus.take_descriptor(
                    SERVICE, MANAGER, f"{INTERFACE}.Inhibit", "ssss", words
                )

    def let_sleep(self) -> None:
        """The engines are gone: sleep may begin."""
        if self._delay >= 0:
            os.close(self._delay)
            self._delay = -1

    async def read(self, is_asleep: Callable[[], bool] = lambda: False) -> None:
        """Reads everything and tells it. Raises BusFault."""
        if not is_asleep():
            await self._take_delay()
        (listed,) = await self._bus.call(
            SERVICE, MANAGER, f"{INTERFACE}.ListSessions", answer="a(susso)"
        )
        sessions = []
        for _, user, _, _, path in listed[:MOST_SESSIONS]:
            try:
                found = session_of(user, await self._bus.properties(SERVICE, path, SESSION))
            except BusFault as fault:
                if fault.is_absent:
                    continue  # it ended meanwhile
                raise
            if found is not None:
                sessions.append(found)
        is_locked = any(session.is_locked for session in sessions)
        if not is_locked:
            self._locked_since_s = None
        elif self._locked_since_s is None:
            self._locked_since_s = self._now_s()
        awake_for = await self._inhibitor()
        self._tell(desktop_of(sessions, self._user, awake_for, self._locked_since_s))

    async def _inhibitor(self) -> str:
        (listed,) = await self._bus.call(
            SERVICE, MANAGER, f"{INTERFACE}.ListInhibitors", answer="a(ssssuu)"
        )
        for what, who, _, mode, _, _ in listed:
            if mode == "block" and "idle" in what.split(":"):
                return str(who)[:100] or "a program"
        return ""

    def close(self) -> None:
        """Gives the delay back."""
        self.let_sleep()
