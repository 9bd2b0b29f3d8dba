"""From an input event to the policy's ruling: X11, Wayland, an input device, GameMode.

Owns: those figures. The X server and the bus are the real programs, the compositor is a small one
that speaks the wire, the device is a pipe. Measured inside one loop, as in the agent: from the call
that makes the event to the end of the decision over all rules for sixteen cards. The processor's
other users count in: run it on a quiet machine.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC
from pathlib import Path
from typing import Any

from dbus_fast import Variant

from app.policy.machine import PolicyMachine
from app.policy.rules import RULES
from app.policy.snapshot import CardFacts, PlayFacts, PowerFacts
from app.probes.board import FactBoard
from app.probes.gather import Machine, Probes
from app.probes.idle.source import Input
from app.probes.polls import Pace, Polled
from benchmarks.record import Row, not_run, row
from tests.helpers.desktop import Compositor, answers, private_bus, services, type_key, x_server
from tests.helpers.situations import choices

EVENTS = 200
BAR_MS = 20.0
CARDS = [CardFacts(number, "vulkan", f"0000:{number:02x}:00.0") for number in range(16)]
IDLE_WAIT_S = 2.3


class _Seen:
    def __init__(self, name: str, fact: object) -> None:
        self.name = name
        self.periods_s: dict[Pace, float] = {"off": 60.0, "waiting": 60.0, "lending": 60.0}
        self._fact = fact

    def look(self) -> object:
        return self._fact


class _Decider:
    """Decides after every change, as the agent's loop does."""

    def __init__(self) -> None:
        self.board = FactBoard(self._changed, lambda: UTC)
        self._machine = PolicyMachine()
        self._choices = choices()
        self.decided = asyncio.Event()

    def _changed(self) -> None:
        asyncio.get_running_loop().call_soon(self._decide)

    def _decide(self) -> None:
        snapshot = self.board.snapshot(time.time(), time.monotonic(), CARDS)
        self._machine.rule(snapshot, RULES, {}, self._choices)
        self.decided.set()


def measure() -> list[Row]:
    return [
        *_row("wayland", "input event to ruling, Wayland stub", _wayland),
        *_row("x11", "input event to ruling, X server", _x11, shutil.which("Xvfb") is None),
        *_row("device", "input event to ruling, input device (a pipe)", _device),
        *_row(
            "gamemode", "GameMode's signal to ruling", _gamemode,
            shutil.which("dbus-daemon") is None,
        ),
    ]  # fmt: skip


Script = Callable[[_Decider, Path], Awaitable[list[float]]]


def _row(name: str, what: str, script: Script, is_missing: bool = False) -> list[Row]:
    if is_missing:
        return [not_run(what, "ms", f"<= {BAR_MS:g} ms", f"what {name} needs is not here")]
    with tempfile.TemporaryDirectory(prefix="lending-") as folder:
        times_ms = sorted(asyncio.run(_run(script, Path(folder))))
    at = min(len(times_ms) - 1, int(0.99 * len(times_ms)))
    note = f"99th percentile of {len(times_ms)}; median {times_ms[len(times_ms) // 2]:.2f} ms"
    return [row(what, round(times_ms[at], 3), "ms", bar=BAR_MS, better="lower", note=note)]


async def _run(script: Script, folder: Path) -> list[float]:
    return await script(_Decider(), folder)


def _probes(decider: _Decider, folder: Path, environment: dict[str, str]) -> Probes:
    polled: tuple[Polled, ...] = (
        _Seen("terminals", Input(5.0)),
        _Seen("play", PlayFacts()),
        _Seen("power", PowerFacts()),
    )
    here = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere", **environment}
    machine = Machine(
        time.time, folder, lambda: [], lambda: [], lambda: [], lambda: (0, 0), lambda: here, polled
    )
    return Probes(decider.board, machine)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.005)


async def _timed(decider: _Decider, act: Callable[[], Any]) -> float:
    """Milliseconds from an act to the decision that follows it."""
    decider.decided.clear()
    start_s = time.perf_counter()
    act()
    async with asyncio.timeout(10):
        await decider.decided.wait()
    return (time.perf_counter() - start_s) * 1000


async def _wayland(decider: _Decider, folder: Path) -> list[float]:
    compositor = Compositor(folder / "wayland-0")
    await compositor.start()
    probes = _probes(decider, folder, {"WAYLAND_DISPLAY": str(folder / "wayland-0")})
    probes.start()
    try:
        await _until(lambda: "wayland" in probes.parts.inputs)
        times_ms = []
        for _ in range(EVENTS):
            compositor.send(6, 0)
            await _until(lambda: not probes.parts.inputs["wayland"].is_active)
            times_ms.append(await _timed(decider, lambda: compositor.send(6, 1)))
        return times_ms
    finally:
        await probes.close()
        await compositor.close()


async def _x11(decider: _Decider, folder: Path) -> list[float]:
    from app.probes.idle import x11

    x11.IDLE_AFTER_S = 0.05  # type: ignore[misc]
    with x_server() as environment:
        probes = _probes(decider, folder, environment)
        probes.start()
        try:
            await _until(lambda: "x11" in probes.parts.inputs)
            times_ms = []
            for _ in range(EVENTS):
                await _until(lambda: not probes.parts.inputs["x11"].is_active)
                # The key is pressed in this thread: opening the display is part of the figure.
                times_ms.append(await _timed(decider, lambda: type_key(environment["DISPLAY"])))
            return times_ms
        finally:
            await probes.close()


async def _device(decider: _Decider, folder: Path) -> list[float]:
    from app.probes.idle.devices import DeviceWatch

    os.mkfifo(folder / "event0")
    writers: list[int] = []
    probes = _probes(decider, folder, {})
    probes._devices = DeviceWatch(probes._device_came, folder)
    probes.start()
    try:
        writers.append(os.open(folder / "event0", os.O_WRONLY))
        await _until(lambda: "devices" in probes.parts.inputs)
        times_ms = []
        for _ in range(EVENTS):
            await asyncio.sleep(0.01)
            times_ms.append(await _timed(decider, lambda: os.write(writers[0], b"\0" * 24)))
        return times_ms
    finally:
        await probes.close()
        for writer in writers:
            os.close(writer)


async def _gamemode(decider: _Decider, folder: Path) -> list[float]:
    name = "com.feralinteractive.GameMode"
    games: list[Any] = []
    with private_bus() as address:
        async with services(address) as stubs:
            stubs.answers[name, "ListGames"] = lambda _: ("a(io)", [games])
            stubs.answers["unused", "unused"] = answers("s", Variant("s", "").value)
            await stubs.own(name)
            probes = _probes(decider, folder, {"DBUS_SESSION_BUS_ADDRESS": address})
            probes.start()
            try:
                await asyncio.sleep(1.0)
                times_ms = []
                for number in range(EVENTS):
                    is_start = number % 2 == 0
                    games[:] = [[os.getpid(), "/g"]] if is_start else []
                    member = "GameRegistered" if is_start else "GameUnregistered"

                    def act(member: str = member) -> None:
                        stubs.signal("/x", f"{name}.{member}", "io", os.getpid(), "/g")

                    spent_ms = await _timed(decider, act)
                    if is_start:
                        times_ms.append(spent_ms)
                return times_ms
            finally:
                await probes.close()
