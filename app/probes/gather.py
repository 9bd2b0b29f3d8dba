"""All probes of this machine: started, watched, ended.

Owns: which probes there are, their tasks, and that one that fails is tried again. Must not: decide
anything; what the sources say is put together in `parts.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from app.probes.board import FactBoard, Health, Report
from app.probes.buses import Buses
from app.probes.cards import CardProbe
from app.probes.desktop.full_screen import FullScreen
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
from app.probes.machine import RETRY_S, Machine
from app.probes.parts import Parts
from app.probes.polls import Pace, Polled, Polls
from app.probes.power import PowerProbe
from app.probes.processes import ProcessProbe

__all__ = ["RETRY_S", "Machine", "Probes"]

CHECK_S: Final[dict[Pace, float]] = {"off": 60.0, "waiting": 30.0, "lending": 5.0}
DEVICES_IDLE_S: Final = 2.0


class Probes:
    """All probes. Methods belong to the loop's thread."""

    def __init__(self, board: FactBoard, machine: Machine) -> None:
        self._board = board
        self._machine = machine
        self.parts = Parts(board.tell, machine.traffic)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pace: Pace = "lending"
        self._buses = Buses(board, machine, self.parts)
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
        buses = (self._buses.system, self._buses.session)
        for work in (*buses, self._x11, self._wayland, self._check):
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
        self._buses.let_sleep()

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
            path = display_path(self._buses.environment())
            if path is not None:
                await watch_wayland(
                    path, self._machine.now_s, lambda told: self.parts.put_input("wayland", told)
                )

        await self._again("wayland", watch)

    async def _x11(self) -> None:
        await self._again("x11", self._watch_x11)

    async def _watch_x11(self) -> None:
        environment = self._buses.environment()
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


def _surface(task: asyncio.Task[None]) -> None:
    """A probe that ended by a defect of ours must not be taken for one that is quiet."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        context = {"message": "a probe ended by a defect", "exception": error}
        task.get_loop().call_exception_handler(context)
