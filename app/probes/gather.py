"""All probes of this machine: started, watched, ended.

Owns: which probes there are, their tasks, and that one that fails is tried again. Must not: decide
anything; what the sources say is put together in `parts.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.policy.snapshot import NetworkFacts
from app.probes.board import FactBoard, Health, Report
from app.probes.cards import CardProbe
from app.probes.desktop.bus import Bus, BusFault, bus_address
from app.probes.desktop.follow import follow
from app.probes.desktop.full_screen import FullScreen
from app.probes.desktop.logind import MANAGER, Logind
from app.probes.desktop.session import GameMode, IdleMonitor, awake_for, manager_environment
from app.probes.desktop.supplies import (
    NETWORK_PATH,
    POWER_PATHS,
    DesktopPower,
    read_network,
    read_power,
)
from app.probes.desktop.xconnection import XConnection, XError
from app.probes.gpus.names import program_of
from app.probes.hotplug import CARDS, HotPlug
from app.probes.idle.devices import DeviceWatch
from app.probes.idle.sessions import FRESH_S, SessionTold
from app.probes.idle.shared_memory import SharedMemoryProbe
from app.probes.idle.source import Input, SourceName
from app.probes.idle.terminals import TerminalProbe
from app.probes.idle.wayland import NotifierAbsent, display_path, watch_wayland
from app.probes.idle.x11 import IdleAlarm
from app.probes.load import LoadProbe
from app.probes.parts import Parts
from app.probes.polls import Pace, Polled, Polls
from app.probes.power import PowerProbe
from app.probes.processes import ProcessProbe
from app.probes.route import route_kind

__all__ = ["Machine", "Probes"]

RETRY_S: Final = (2.0, 5.0, 15.0, 60.0)
CHECK_S: Final[dict[Pace, float]] = {"off": 60.0, "waiting": 30.0, "lending": 5.0}
REFRESH_S: Final = 300.0
AWAKE_S: Final = 20.0
DEVICES_IDLE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What the probes need to know of the agent and of where they are.

    Args:
        now_s: Unix seconds.
        disk: a folder on the disk of the cache.
        ours: processes that are ours.
        held: identities of the cards that this agent lends now.
        listed: the owner's names of programs.
        traffic: bytes of today and of this month.
        environment: of this process; read again at every connection.
        polled: the probes that look; None: those of this machine.
        delays_sleep: sleep waits until engines are gone.
        plugged: told that a card may have come or gone.
    """

    now_s: Callable[[], float]
    disk: Path
    ours: Callable[[], Iterable[int]]
    held: Callable[[], Iterable[str]]
    listed: Callable[[], Iterable[str]]
    traffic: Callable[[], tuple[int, int]]
    environment: Callable[[], Mapping[str, str]] = lambda: os.environ
    polled: tuple[Polled, ...] | None = None
    delays_sleep: bool = True
    plugged: Callable[[], None] = lambda: None


class Probes:
    """All probes. Methods belong to the loop's thread."""

    def __init__(self, board: FactBoard, machine: Machine) -> None:
        self._board = board
        self._machine = machine
        self.parts = Parts(board.tell, machine.traffic)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pace: Pace = "lending"
        self._logind: Logind | None = None
        self._manager_environment: dict[str, str] = {}
        self._devices = DeviceWatch(self._device_came)
        self._hotplug = HotPlug(self._plugged)
        self._device_timer: asyncio.TimerHandle | None = None
        self._polls: Polls | None = None
        self.cards: CardProbe | None = None
        self._session_timers: dict[int, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Begins; the first facts come within a moment."""
        loop = asyncio.get_running_loop()
        probes = self._machine.polled
        if probes is None:
            probes = self._own()

        def tell(probe: Polled, seen: Any, why: str) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._looked, probe, seen, why)

        self._polls = Polls(probes, tell)
        self._polls.start()
        self._hotplug.start()
        self._open_devices()
        for work in (self._system_bus, self._session_bus, self._x11, self._wayland, self._check):
            self._spawn(work)

    def _own(self) -> tuple[Polled, ...]:
        machine = self._machine
        self.cards = CardProbe.of_this_machine(machine.ours, machine.held)
        return (
            TerminalProbe(machine.now_s),
            SharedMemoryProbe(machine.now_s),
            ProcessProbe(machine.listed),
            PowerProbe(),
            LoadProbe(machine.disk, machine.ours),
            self.cards,
        )

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await work()

        loop = asyncio.get_running_loop()
        task = loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(_surface)

    async def close(self) -> None:
        """Ends everything; what hangs is left to itself."""
        if self._polls is not None:
            self._polls.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)
        self._hotplug.close()
        self._devices.close()
        if self._device_timer is not None:
            self._device_timer.cancel()
        for timer in self._session_timers.values():
            timer.cancel()

    def put_session(self, connection: int, told: SessionTold | None) -> None:
        """What the helper of a desktop session says; it holds for a while. None: it has gone."""
        timer = self._session_timers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        elif told is None:
            return
        if told is not None:
            loop = asyncio.get_running_loop()
            self._session_timers[connection] = loop.call_later(
                FRESH_S, self.put_session, connection, None
            )
        self.parts.put_session(connection, told)

    def set_pace(self, pace: Pace) -> None:
        """How often the probes that look shall look."""
        self._pace = pace
        if self._polls is not None:
            self._polls.set_pace(pace)

    def let_sleep(self) -> None:
        """The engines are gone: the machine may sleep."""
        if self._logind is not None:
            self._logind.let_sleep()

    # -- probes that look --------------------------------------------------------------------

    def _looked(self, probe: Polled, seen: Any, why: str) -> None:
        name = probe.name
        if name in ("terminals", "idle_detect"):
            source: SourceName = "terminals" if name == "terminals" else "idle_detect"
            self.parts.put_input(source, seen, why)
        elif name == "play":
            self.parts.put_scan(seen, why)
        elif name == "power":
            self.parts.put_supplies(seen, why)
        else:
            health: Health = "unknown" if why else "well"
            source_name = getattr(probe, "source", name)
            self._board.tell(Report(name, health, source_name, why), seen)

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S[self._pace])
            if self._polls is not None:
                self._polls.check()

    def _plugged(self, subsystem: str) -> None:
        if subsystem == "input":
            self._open_devices()
            return
        if subsystem in CARDS:
            self._machine.plugged()
        self.look_again()

    def look_again(self) -> None:
        """Something is new: the probes that look do so now."""
        if self._polls is not None:
            self._polls.look_again()

    # -- input devices -----------------------------------------------------------------------

    def _open_devices(self) -> None:
        self._devices.look()
        if self._devices.count and "devices" not in self.parts.inputs:
            self._device_came()

    def _device_came(self) -> None:
        self.parts.put_input("devices", Input(self._machine.now_s(), is_active=True))
        if self._device_timer is not None:
            self._device_timer.cancel()
        loop = asyncio.get_running_loop()
        self._device_timer = loop.call_later(DEVICES_IDLE_S, self._devices_rest)

    def _devices_rest(self) -> None:
        if self._devices.count:
            idle_since_s = self._machine.now_s() - DEVICES_IDLE_S
            self.parts.put_input("devices", Input(idle_since_s))
        else:
            self.parts.put_input("devices", None)

    # -- buses -------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
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

    async def _system_bus(self) -> None:
        await self._bus("system", self._use_system, self._without_system)

    def _without_system(self, fault: BusFault) -> None:
        if fault.is_absent:
            self._without_logind()
            self.parts.put_desktop_power(DesktopPower())
            self.parts.put_network(_unmanaged(), "kernel")
        else:
            self.parts.put_sessions_fault(str(fault))
            self.parts.put_desktop_power(DesktopPower(), str(fault))
            self.parts.put_network(None, "NetworkManager", str(fault))

    def _without_logind(self) -> None:
        environment = self._environment()
        self.parts.put_no_sessions(
            bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
        )

    async def _use_system(self, bus: Bus) -> None:
        power, network = asyncio.Event(), asyncio.Event()
        logind = Logind(
            bus, os.geteuid(), self._machine.now_s, self.parts.put_desktop, self._board.sleep,
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
            self.parts.put_desktop_power(await read_power(bus))

        async def put_network() -> None:
            told = await read_network(bus)
            source = "kernel" if told is None else "NetworkManager"
            self.parts.put_network(told or _unmanaged(), source)

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
            self.parts.put_sessions_fault(str(fault))

    def _no_power(self, fault: BusFault) -> None:
        self.parts.put_desktop_power(DesktopPower(), str(fault))

    def _no_network(self, fault: BusFault) -> None:
        self.parts.put_network(None, "NetworkManager", str(fault))

    async def _session_bus(self) -> None:
        await self._bus("session", self._use_session, self._without_session)

    def _without_session(self, fault: BusFault) -> None:
        self.parts.put_gamemode((), "" if fault.is_absent else str(fault))
        self.parts.put_input("mutter", None)
        self.parts.put_awake("")

    async def _use_session(self, bus: Bus) -> None:
        self._manager_environment = await manager_environment(bus)
        games = GameMode(bus, program_of, self.parts.put_gamemode)
        monitor = IdleMonitor(
            bus, self._machine.now_s, lambda told: self.parts.put_input("mutter", told)
        )
        awake = asyncio.Event()

        async def put_awake() -> None:
            self.parts.put_awake(await awake_for(bus))

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
        self.parts.put_gamemode((), str(fault))

    def _no_monitor(self, fault: BusFault) -> None:
        self.parts.put_input("mutter", None, str(fault))

    def _no_awake(self, fault: BusFault) -> None:
        self.parts.put_awake("something unknown")  # the cautious answer

    # -- displays ----------------------------------------------------------------------------

    async def _again(self, name: SourceName, watch: Callable[[], Awaitable[None]]) -> None:
        """Watches a display again and again; a fault that stays is not told anew each time."""
        tries = 0
        while True:
            why = ""
            try:
                await watch()
            except (NotifierAbsent, XError, OSError, ValueError, EOFError, TimeoutError) as error:
                why = str(error) or type(error).__name__
            if name == "x11":
                self.parts.put_full_screen("")
            self.parts.put_input(name, None, why)
            await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
            tries += 1

    async def _wayland(self) -> None:
        async def watch() -> None:
            path = display_path(self._environment())
            if path is not None:
                await watch_wayland(
                    path, self._machine.now_s, lambda told: self.parts.put_input("wayland", told)
                )

        await self._again("wayland", watch)

    async def _x11(self) -> None:
        await self._again("x11", self._watch_x11)

    async def _watch_x11(self) -> None:
        environment = self._environment()
        is_wayland = environment.get("XDG_SESSION_TYPE", "") == "wayland"
        if not environment.get("DISPLAY") or is_wayland or environment.get("WAYLAND_DISPLAY"):
            return  # XWayland sees half of the input
        connection = await XConnection.open(environment)
        try:
            alarm = IdleAlarm(connection, self._machine.now_s)
            self.parts.put_input("x11", await alarm.start())
            screen = FullScreen(connection, program_of)
            self.parts.put_full_screen(await screen.start())
            while True:
                event = await connection.event()
                told = alarm.take(event)
                if told is not None:
                    self.parts.put_input("x11", told)
                    continue
                program = await screen.take(event)
                if program is not None:
                    self.parts.put_full_screen(program)
        finally:
            connection.close()


def _unmanaged() -> NetworkFacts:
    return NetworkFacts("untold", route_kind())


def _surface(task: asyncio.Task[None]) -> None:
    """A probe that ended by a defect of ours must not be taken for one that is quiet."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        context = {"message": "a probe ended by a defect", "exception": error}
        task.get_loop().call_exception_handler(context)


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
