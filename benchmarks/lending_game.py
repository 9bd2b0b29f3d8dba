"""From GameMode's word that a game starts to an engine that is gone, through the whole agent.

Owns: that figure. The bus is a real one, GameMode a service on it that answers like it, the engine
is the processor's in its sandbox and works on tasks of a small lab. No list of games is typed. From
the signal to the moment at which the engine's last process has gone; then the game ends, and the
next one starts when an engine works again. And what that throws away, as the agent counts it: the
computing of the task that ran, of all computing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.agent.fleet import start_engine
from app.agent.network import Totals
from app.policy.snapshot import CardFacts, LoadFacts, PlayFacts, PowerFacts
from app.probes.gather import Machine
from app.probes.idle.source import Input
from benchmarks.record import Row, not_run, row
from tests.helpers.agent_run import Scene
from tests.helpers.desktop import private_bus, services
from tests.unit.app.agent.test_sixteen_cards import Look

GAMES = 50
BAR_MS = 1000.0
LIMIT_S = 60.0
WHAT = "GameMode's signal to engine gone"
LOST = "work lost per pause"
LOST_BAR_S = 1.0
NAME = "com.feralinteractive.GameMode"


def measure() -> list[Row]:
    if shutil.which("dbus-daemon") is None:
        why = "dbus-daemon is not here"
        return [
            not_run(WHAT, "ms", f"<= {BAR_MS:g} ms", why),
            not_run(LOST, "s", f"<= {LOST_BAR_S:g} s", why),
        ]
    with tempfile.TemporaryDirectory(prefix="lending-") as name, private_bus() as address:
        folder = Path(name)
        folder.chmod(0o711)  # the engine's own user has to get in
        scene = Scene(folder)
        try:
            times_ms, lost_s, share = _games(scene, address)
        finally:
            scene.close()
    at = min(len(times_ms) - 1, int(0.99 * len(times_ms)))
    note = f"99th percentile of {len(times_ms)}; median {times_ms[len(times_ms) // 2]:.1f} ms"
    whole = f"slowest of {len(lost_s)}; {share:.2f} % of all computing"
    return [
        row(WHAT, round(times_ms[at], 1), "ms", bar=BAR_MS, better="lower", note=note),
        row(LOST, round(lost_s[-1], 3), "s", bar=LOST_BAR_S, better="lower", note=whole),
    ]


def _games(scene: Scene, address: str) -> tuple[list[float], list[float], float]:
    """Milliseconds to the end of each engine, seconds lost by each, and percent lost of all."""
    polled = (Look("terminals", Input(5.0)), Look("play", PlayFacts()),
              Look("power", PowerFacts()), Look("load", LoadFacts(0.0, 2**40, 2**40)),
              Look("cards", {"cpu": CardFacts(0, "cpu")}))  # fmt: skip
    environment = {
        "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere", "DBUS_SESSION_BUS_ADDRESS": address,
    }  # fmt: skip
    times_ms: list[float] = []
    lost_s: list[float] = []
    whole_s = [0.0]

    def adjust(machine: Machine) -> Machine:
        return replace(machine, polled=polled, environment=lambda: environment)

    async def play() -> None:
        games: list[Any] = []
        async with services(address) as stubs:
            stubs.answers[NAME, "ListGames"] = lambda _: ("a(io)", [games])
            await stubs.own(NAME)
            for _ in range(GAMES):
                if len(scene.lab.tasks) < 10:
                    scene.lab.add_products(20, rows=128, inner=256, columns=256)
                pids = await _working(scene)
                games[:] = [[os.getpid(), "/g"]]
                before_s = _totals(scene).lost_s
                since_s = time.perf_counter()
                stubs.signal("/x", f"{NAME}.GameRegistered", "io", os.getpid(), "/g")
                await _until(lambda gone=pids: not any(map(_runs, gone)), 0.001)
                times_ms.append((time.perf_counter() - since_s) * 1000)
                lost_s.append(_totals(scene).lost_s - before_s)
                whole_s[0] = _totals(scene).lost_s + _totals(scene).computed_s
                games[:] = []
                stubs.signal("/x", f"{NAME}.GameUnregistered", "io", os.getpid(), "/g")

    scene.config.write_text("calm.after_s = 0\n" + scene.config.read_text())
    scene.fixed_config = scene.directory / "agent.toml"
    scene.coordinator.next_contact_s = 0.2
    scene.lab.add_products(40, rows=128, inner=256, columns=256)
    scene.lend(lambda: asyncio.run(play()), start_engine, adjust)
    return sorted(times_ms), sorted(lost_s), 100 * sum(lost_s) / max(whole_s[0], 1e-9)


def _totals(scene: Scene) -> Totals:
    assert scene.agent is not None
    return scene.agent.network.totals


async def _working(scene: Scene) -> tuple[int, ...]:
    """Waits until an engine has computed something; its processes."""
    verified = scene.lab.verified()
    async with asyncio.timeout(LIMIT_S):
        while True:
            await asyncio.sleep(0.01)
            pids = () if scene.agent is None else scene.agent.fleet.pids()
            if pids and scene.lab.verified() > verified:
                return pids


def _runs(pid: int) -> bool:
    """Is it there, with memory of its own? What waits to be reaped has none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def _until(holds: Any, pause_s: float = 0.01) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(pause_s)
