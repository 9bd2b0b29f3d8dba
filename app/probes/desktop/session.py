"""The session bus: GameMode, Mutter's idle monitor, and what keeps the screen awake.

Owns: the reading of them. Must not: start any of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from app.probes.desktop.bus import Bus, BusFault
from app.probes.idle.source import Input

__all__ = ["GameMode", "IdleMonitor", "awake_for", "manager_environment"]

GAMEMODE: Final = ("com.feralinteractive.GameMode", "/com/feralinteractive/GameMode")
MUTTER: Final = ("org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core")
GNOME: Final = ("org.gnome.SessionManager", "/org/gnome/SessionManager")
KDE: Final = (
    "org.kde.Solid.PowerManagement.PolicyAgent",
    "/org/kde/Solid/PowerManagement/PolicyAgent",
)
SYSTEMD: Final = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
GNOME_IDLE: Final = 8
IDLE_AFTER_S: Final = 2.0
MOST_GAMES: Final = 64
MOST_INHIBITORS: Final = 64


class GameMode:
    """Follows GameMode's list of games.

    Args:
        name_of: the name of a process's program.
        tell: takes the names of all games that are registered.
    """

    def __init__(
        self, bus: Bus, name_of: Callable[[int], str], tell: Callable[[tuple[str, ...]], None]
    ) -> None:
        self._bus = bus
        self._name_of = name_of
        self._tell = tell
        self.poke = asyncio.Event()

    async def begin(self) -> None:
        """Asks for signals. Raises BusFault."""
        for member in ("GameRegistered", "GameUnregistered"):
            await self._bus.watch(GAMEMODE[0], member, lambda *_: self.poke.set())
        await self._bus.watch_owner(GAMEMODE[0], self.poke.set)

    async def read(self) -> None:
        """Reads the list and tells it. Raises BusFault."""
        try:
            (games,) = await self._bus.call(*GAMEMODE, f"{GAMEMODE[0]}.ListGames", answer="a(io)")
        except BusFault as fault:
            if not fault.is_absent:
                raise
            games = []
        names = {self._name_of(pid) or "a game" for pid, _ in games[:MOST_GAMES]}
        self._tell(tuple(sorted(names)))


class IdleMonitor:
    """Follows Mutter's idle monitor by its watches.

    Args:
        now_s: Unix seconds.
        tell: takes what it says; None where there is no such monitor.
    """

    def __init__(
        self, bus: Bus, now_s: Callable[[], float], tell: Callable[[Input | None], None]
    ) -> None:
        self._bus = bus
        self._now_s = now_s
        self._tell = tell
        self._idle_watch = -1
        self._active_watch = -1
        self._is_idle = False
        self.poke = asyncio.Event()

    async def begin(self) -> None:
        """Asks for signals. Raises BusFault."""
        await self._bus.watch(MUTTER[0], "WatchFired", self._fired)
        await self._bus.watch_owner(MUTTER[0], self._came_or_went)

    def _came_or_went(self) -> None:
        self._idle_watch = self._active_watch = -1
        self.poke.set()

    def _fired(self, _: str, body: list[Any]) -> None:
        watch = body[0] if body else None
        if watch == self._active_watch:
            self._active_watch = -1
            self._tell(Input(self._now_s(), is_active=True))
        elif watch == self._idle_watch:
            self._tell(Input(self._now_s() - IDLE_AFTER_S))
            self.poke.set()  # the watch for activity has to be set again

    async def read(self) -> None:
        """Reads the time and sets the watches that are missing. Raises BusFault."""
        name = MUTTER[0]
        try:
            (idle_ms,) = await self._bus.call(*MUTTER, f"{name}.GetIdletime", answer="t")
            if self._idle_watch < 0:
                (self._idle_watch,) = await self._bus.call(
                    *MUTTER, f"{name}.AddIdleWatch", "t", [round(IDLE_AFTER_S * 1000)], answer="u"
                )
            is_idle = idle_ms >= IDLE_AFTER_S * 1000
            if self._active_watch < 0 and is_idle:
                (self._active_watch,) = await self._bus.call(
                    *MUTTER, f"{name}.AddUserActiveWatch", answer="u"
                )
                # Input between the two calls is seen by neither but by the time.
                (idle_ms,) = await self._bus.call(*MUTTER, f"{name}.GetIdletime", answer="t")
                is_idle = idle_ms >= IDLE_AFTER_S * 1000
        except BusFault as fault:
            if not fault.is_absent:
                raise
            self._tell(None)
            return
        self._tell(Input(self._now_s() - idle_ms / 1000.0, is_active=not is_idle))


async def awake_for(bus: Bus) -> str:
    """The program that keeps the screen awake, by GNOME's or KDE's list; empty for none.

    Raises:
        BusFault: one of them is there and does not answer.
    """
    return await _gnome_inhibitor(bus) or await _kde_inhibitor(bus)


async def _gnome_inhibitor(bus: Bus) -> str:
    try:
        (is_held,) = await bus.call(
            *GNOME, f"{GNOME[0]}.IsInhibited", "u", [GNOME_IDLE], answer="b"
        )
        if not is_held:
            return ""
        (paths,) = await bus.call(*GNOME, f"{GNOME[0]}.GetInhibitors", answer="ao")
        for path in paths[:MOST_INHIBITORS]:
            inhibitor = f"{GNOME[0]}.Inhibitor"
            (flags,) = await bus.call(GNOME[0], path, f"{inhibitor}.GetFlags", answer="u")
            if flags & GNOME_IDLE:
                (name,) = await bus.call(GNOME[0], path, f"{inhibitor}.GetAppId", answer="s")
                return str(name)[:100] or "a program"
    except BusFault as fault:
        if not fault.is_absent:
            raise
        return ""
    return "a program"


async def _kde_inhibitor(bus: Bus) -> str:
    try:
        (listed,) = await bus.call(*KDE, f"{KDE[0]}.ListInhibitions", answer="a(ss)")
    except BusFault as fault:
        if not fault.is_absent:
            raise
        return ""
    return str(listed[0][0])[:100] or "a program" if listed else ""


async def manager_environment(bus: Bus) -> dict[str, str]:
    """The variables of the user's service manager, where a session leaves its display."""
    try:
        found = await bus.properties(*SYSTEMD, "org.freedesktop.systemd1.Manager")
    except BusFault:
        return {}
    pairs = [str(each).partition("=") for each in found.get("Environment", [])[:1000]]
    return {name: value for name, equals, value in pairs if equals}
