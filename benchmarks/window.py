"""How soon the tray is there, what the window's program costs while nothing happens, and how fast a
click reaches the agent.

Owns: those figures, on a real X server, bus and tray host, before an agent that serves a recording.
Peer: the same process with Qt's application and an icon alone, without anything of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from dbus_fast.aio import MessageBus

from app.control.messages import Pause
from benchmarks.record import Row, row
from gpugoblin.units import MIB
from tests.helpers.desktop import private_bus, x_server
from tests.helpers.served_agent import ServedAgent
from tests.helpers.tray_host import Desk, Host, menu_with, until

STARTS = 20
CLICKS = 100
QUIET_S = 60.0
SETTLE_S = 40.0
"""Qt's pooled threads end about 30 s after the start; what is measured after them is the rest."""

BARE = """
import sys
from PySide6.QtGui import QIcon, QPixmap
from PySide6.QtWidgets import QApplication, QMenu, QSystemTrayIcon
application = QApplication(sys.argv[:1])
menu = QMenu()
menu.addAction("Quit")
picture = QPixmap(64, 64)
picture.fill()
icon = QSystemTrayIcon(QIcon(picture))
icon.setContextMenu(menu)
icon.show()
sys.exit(application.exec())
"""


def measure() -> list[Row]:
    with _desk() as desk:
        return asyncio.run(_measure(desk))


@contextlib.contextmanager
def _desk() -> Iterator[Desk]:
    with (
        tempfile.TemporaryDirectory(prefix="gg-") as base,
        private_bus() as bus,
        x_server() as screen,
        ServedAgent("desktop", Path(base) / "control") as served,
    ):
        yield Desk(bus, screen, served)


async def _measure(desk: Desk) -> list[Row]:
    bus = await MessageBus(bus_address=desk.address).connect()
    try:
        host = Host(bus)
        await host.appear()
        ours, bare = [], []
        for _turn in range(STARTS):
            ours.append(await _start_ms(desk, host, bare=False))
            bare.append(await _start_ms(desk, host, bare=True))
        return [
            row(
                "window: start to the icon in the tray", statistics.median(ours), "ms", bar=600,
                better="lower", peer="Qt with an icon alone", peer_value=statistics.median(bare),
                note=f"median of {STARTS}, Xvfb, each in turn with the peer",
            ),
            *await _idle(desk, host),
        ]  # fmt: skip
    finally:
        bus.disconnect()


async def _start_ms(desk: Desk, host: Host, *, bare: bool) -> float:
    before = len(host.items)
    began_s = time.perf_counter()
    process = _started(desk, bare=bare)
    await until(lambda: len(host.items) > before)
    taken_ms = (time.perf_counter() - began_s) * 1000
    process.terminate()
    process.wait()
    return taken_ms


def _started(desk: Desk, *, bare: bool) -> subprocess.Popen[bytes]:
    if bare:
        return subprocess.Popen([sys.executable, "-I", "-c", BARE], env=desk.environment)
    return desk.start("--background")


async def _idle(desk: Desk, host: Host) -> list[Row]:
    before = len(host.items)
    process = desk.process = desk.start("--background")
    await until(lambda: len(host.items) > before)
    await menu_with(host, "Pause for an hour")
    await asyncio.sleep(SETTLE_S)
    wakes = _switches(process.pid)
    await asyncio.sleep(QUIET_S)
    wakes = _switches(process.pid) - wakes
    dirty, resident = _memory_bytes(process.pid)
    clicks = await _clicks_ms(desk, host)
    desk.end()
    clicks.sort()
    return [
        row(
            "window: private memory in the tray", dirty / MIB, "MiB", bar=30, better="lower",
            note=f"private dirty; {resident / MIB:.0f} MiB resident, most of it shared with Qt",
        ),
        row(
            "window: wake-ups while nothing happens", wakes * 60 / QUIET_S, "1/min", bar=6,
            better="lower", note=f"voluntary context switches of all threads in {QUIET_S:.0f} s",
        ),
        row(
            "window: click in the tray to the agent", clicks[int(0.99 * len(clicks))], "ms",
            bar=150, better="lower",
            note=f"99th percentile of {len(clicks)}; the agent's own part is in the area lending",
        ),
    ]  # fmt: skip


async def _clicks_ms(desk: Desk, host: Host) -> list[float]:
    taken = []
    for _turn in range(CLICKS):
        before = sum(isinstance(one, Pause) for one in desk.served.asked)
        began_s = time.perf_counter()
        await host.click("Pause for an hour")
        while sum(isinstance(one, Pause) for one in desk.served.asked) == before:
            await asyncio.sleep(0.001)
        taken.append((time.perf_counter() - began_s) * 1000)
        await menu_with(host, "Resume")
        await host.click("Resume")
        await menu_with(host, "Pause for an hour")
    return taken


def _switches(pid: int) -> int:
    """How often the threads of a process went to sleep and came back."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def _memory_bytes(pid: int) -> tuple[int, int]:
    """Private dirty and resident memory."""
    found = {"Private_Dirty": 0, "Rss": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _colon, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return found["Private_Dirty"], found["Rss"]
