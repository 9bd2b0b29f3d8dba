"""The tray end to end: a real X server and bus, a small tray host, the real program, real clicks.

The tray host here is a StatusNotifierWatcher of a few lines, as desktops have one: it sees the icon
register, reads its menu over the bus, and clicks an entry. What a click does is seen at the agent.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from dbus_fast.aio import MessageBus

from app.control.messages import Pause, Resume
from tests.helpers.desktop import private_bus, x_server
from tests.helpers.served_agent import ServedAgent
from tests.helpers.tray_host import Desk, Host, menu_with, run, until

pytest.importorskip(
    "PySide6.QtWidgets",
    reason="PySide6 or a library of the desktop is missing",
    exc_type=ImportError,  # a missing library is none of a missing module
)
if not shutil.which("Xvfb") or not shutil.which("dbus-daemon"):
    pytest.skip("Debian's packages xvfb and dbus-daemon are missing", allow_module_level=True)


@pytest.fixture
def desk(short_path: Path) -> Iterator[Desk]:
    with (
        private_bus() as bus,
        x_server() as screen,
        ServedAgent("desktop", short_path / "control") as served,
    ):
        found = Desk(bus, screen, served)
        yield found
        if found.process is not None and found.process.poll() is None:
            found.process.kill()
            found.process.wait()


@pytest.mark.timeout(200)
def test_pause_and_resume_by_clicks_in_the_tray(desk: Desk) -> None:
    async def work(host: Host) -> None:
        await host.appear()
        desk.process = desk.start("--background")
        await until(lambda: host.items)
        await menu_with(host, "Pause for an hour")
        _title, _icon, tip, line = (await host.property("ToolTip"))[:4]
        assert "gpugoblin" in f"{tip}{line}"
        assert len(await host.property("IconPixmap")) > 0
        await host.click("Pause for an hour")
        await until(lambda: any(isinstance(one, Pause) for one in desk.served.asked))
        await menu_with(host, "Resume")
        await host.click("Resume")
        await until(lambda: any(isinstance(one, Resume) for one in desk.served.asked))
        await host.click("Quit")
        assert desk.process is not None
        await until(lambda: desk.process is None or desk.process.poll() is not None)
        assert desk.process.returncode == 0

    run(work, desk.address)


@pytest.mark.timeout(200)
def test_opensnitch1659_appindicator260_a_tray_that_comes_late_or_restarts_gets_the_icon(
    desk: Desk,
) -> None:
    async def work(host: Host) -> None:
        desk.process = desk.start("--background")
        await asyncio.sleep(3.0)
        assert host.items == []
        await host.appear()
        await until(lambda: host.items)
        await menu_with(host, "Open gpugoblin")
        before = len(host.items)
        await host.leave()
        await asyncio.sleep(0.5)
        await host.appear()
        await until(lambda: len(host.items) > before)
        desk.end()

    run(work, desk.address)


@pytest.mark.timeout(200)
def test_a_second_start_brings_the_first_to_the_front(desk: Desk) -> None:
    async def work(host: Host) -> None:
        await host.appear()
        desk.process = desk.start("--background")
        await until(lambda: host.items)
        await menu_with(host, "Pause for an hour")
        second = desk.start("--page", "history")
        await until(lambda: second.poll() is not None)
        assert second.returncode == 0
        assert len(host.items) == 1, "a second icon came"
        desk.end()

    run(work, desk.address)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_random_login_orders_all_end_with_an_icon(short_path: Path) -> None:
    """The host comes 0 to 30 s after the program, before it, or goes and comes again."""
    draws = random.Random(20261201)
    orders = [(draws.uniform(-1.0, 30.0), draws.random() < 0.3) for _ in range(50)]

    async def login(number: int, late_s: float, restarts: bool) -> None:
        with (
            private_bus() as bus_address,
            x_server() as screen,
            ServedAgent("laptop", short_path / f"c{number}") as served,
        ):
            desk = Desk(bus_address, screen, served)
            bus = await MessageBus(bus_address=bus_address).connect()
            try:
                host = Host(bus)
                if late_s < 0:
                    await host.appear()
                desk.process = desk.start("--background")
                if late_s >= 0:
                    await asyncio.sleep(late_s)
                    await host.appear()
                await until(lambda: host.items)
                if restarts:
                    before = len(host.items)
                    await host.leave()
                    await asyncio.sleep(0.3)
                    await host.appear()
                    await until(lambda: len(host.items) > before)
                await menu_with(host, "Open gpugoblin")
                desk.end()
            finally:
                bus.disconnect()

    async def all_of_them() -> None:
        for begin in range(0, len(orders), 5):
            some = enumerate(orders[begin : begin + 5], begin)
            await asyncio.gather(*(login(number, *order) for number, order in some))

    asyncio.run(all_of_them())
