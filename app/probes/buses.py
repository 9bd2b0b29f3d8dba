"""What the system's bus and the session's bus tell: sessions, power, network, games, idleness.

Owns: both connections, made again and again, and who is asked on them. Must not: decide anything;
what the services say is put together in `parts.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from app.policy.snapshot import NetworkFacts
from app.probes.board import FactBoard
from app.probes.desktop.bus import Bus, BusFault, bus_address
from app.probes.desktop.follow import follow
from app.probes.desktop.logind import MANAGER, Logind
from app.probes.desktop.session import GameMode, IdleMonitor, awake_for, manager_environment
from app.probes.desktop.supplies import (
    NETWORK_PATH,
    POWER_PATHS,
    DesktopPower,
    read_network,
    read_power,
)
from app.probes.gpus.names import program_of
from app.probes.machine import RETRY_S, Machine
from app.probes.parts import Parts
from app.probes.route import route_kind

__all__ = ["Buses"]

REFRESH_S: Final = 300.0
AWAKE_S: Final = 20.0


class Buses:
    """Both buses. Methods belong to the loop's thread.

    Args:
        parts: told what the services say.
    """

    def __init__(self, board: FactBoard, machine: Machine, parts: Parts) -> None:
        self._board = board
        self._machine = machine
        self._parts = parts
        self._logind: Logind | None = None
        self._manager_environment: dict[str, str] = {}

    def let_sleep(self) -> None:
        """The engines are gone: the machine may sleep."""
        if self._logind is not None:
            self._logind.let_sleep()

    def environment(self) -> dict[str, str]:
        """This process's variables, and those that a session left with the user's manager."""
        return {**self._manager_environment, **self._machine.environment()}

    async def _bus(self, kind: str, use: Callable[[Bus], Awaitable[None]],
                   without: Callable[[BusFault], None]) -> None:  # fmt: skip
        """Connects again and again; `without` is told why there is no connection."""
        tries = 0
        while True:
            try:
                bus = await Bus.connect(kind, bus_address(kind, self._machine.environment()))
                tries = 0
                try:
                    await use(bus)
                finally:
                    bus.close()
            except BusFault as fault:
                without(fault)
            await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
            tries += 1

    async def system(self) -> None:
        await self._bus("system", self._use_system, self._without_system)

    def _without_system(self, fault: BusFault) -> None:
        if fault.is_absent:
            self._without_logind()
            self._parts.put_desktop_power(DesktopPower())
            self._parts.put_network(_unmanaged(), "kernel")
        else:
            self._parts.put_sessions_fault(str(fault))
            self._parts.put_desktop_power(DesktopPower(), str(fault))
            self._parts.put_network(None, "NetworkManager", str(fault))

    def _without_logind(self) -> None:
        environment = self.environment()
        self._parts.put_no_sessions(
            bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
        )

    async def _use_system(self, bus: Bus) -> None:
        power, network = asyncio.Event(), asyncio.Event()
        logind = Logind(
            bus, os.geteuid(), self._machine.now_s, self._parts.put_desktop, self._board.sleep,
            self._machine.delays_sleep,
        )  # fmt: skip
        self._logind = logind

        def changed(path: str, _: list[Any]) -> None:
            if path in POWER_PATHS:
                power.set()
            elif path == NETWORK_PATH:
                network.set()
            elif path.startswith(MANAGER):
                logind.poke.set()

        async def read_sessions() -> None:
            await logind.read(lambda: self._board.is_asleep)

        async def put_power() -> None:
            self._parts.put_desktop_power(await read_power(bus))

        async def put_network() -> None:
            told = await read_network(bus)
            source = "kernel" if told is None else "NetworkManager"
            self._parts.put_network(told or _unmanaged(), source)

        try:
            await bus.watch("org.freedesktop.DBus.Properties", "PropertiesChanged", changed)
            for service, poke in (("org.freedesktop.UPower", power),
                                  ("org.freedesktop.NetworkManager", network),
                                  ("org.freedesktop.login1", logind.poke)):  # fmt: skip
                await bus.watch_owner(service, poke.set)
            await logind.begin()
            await _together(
                bus,
                follow(read_sessions, self._no_sessions, logind.poke, REFRESH_S / 10),
                follow(put_power, self._no_power, power, REFRESH_S),
                follow(put_network, self._no_network, network, REFRESH_S),
            )
        finally:
            logind.close()
            self._logind = None
        raise BusFault("the system bus has gone")

    def _no_sessions(self, fault: BusFault) -> None:
        if fault.is_absent:
            self._without_logind()
        else:
            self._parts.put_sessions_fault(str(fault))

    def _no_power(self, fault: BusFault) -> None:
        self._parts.put_desktop_power(DesktopPower(), str(fault))

    def _no_network(self, fault: BusFault) -> None:
        self._parts.put_network(None, "NetworkManager", str(fault))

    async def session(self) -> None:
        await self._bus("session", self._use_session, self._without_session)

    def _without_session(self, fault: BusFault) -> None:
        self._parts.put_gamemode((), "" if fault.is_absent else str(fault))
        self._parts.put_input("mutter", None)
        self._parts.put_awake("")

    async def _use_session(self, bus: Bus) -> None:
        self._manager_environment = await manager_environment(bus)
        games = GameMode(bus, program_of, self._parts.put_gamemode)
        monitor = IdleMonitor(
            bus, self._machine.now_s, lambda told: self._parts.put_input("mutter", told)
        )
        awake = asyncio.Event()

        async def put_awake() -> None:
            self._parts.put_awake(await awake_for(bus))

        for member in ("InhibitorAdded", "InhibitorRemoved"):
            await bus.watch("org.gnome.SessionManager", member, lambda *_: awake.set())
        await games.begin()
        await monitor.begin()
        await _together(
            bus,
            follow(games.read, self._no_gamemode, games.poke, REFRESH_S),
            follow(monitor.read, self._no_monitor, monitor.poke, REFRESH_S),
            follow(put_awake, self._no_awake, awake, AWAKE_S),
        )
        raise BusFault("the session bus has gone")

    def _no_gamemode(self, fault: BusFault) -> None:
        self._parts.put_gamemode((), str(fault))

    def _no_monitor(self, fault: BusFault) -> None:
        self._parts.put_input("mutter", None, str(fault))

    def _no_awake(self, fault: BusFault) -> None:
        self._parts.put_awake("something unknown")  # the cautious answer


def _unmanaged() -> NetworkFacts:
    return NetworkFacts("untold", route_kind())


async def _together(bus: Bus, *works: Awaitable[None]) -> None:
    """Runs all until the bus is gone."""
    tasks = [asyncio.ensure_future(work) for work in works]
    ending = asyncio.ensure_future(bus.wait_for_end())
    try:
        await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in (*tasks, ending):
            task.cancel()
        await asyncio.wait([*tasks, ending])
