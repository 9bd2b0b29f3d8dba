"""Sessions of every kind: Wayland, an old panel that knows XEmbed alone, and no tray at all.

The real program in each: it is found, it can be told to pause, and nothing jumps at anybody.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dbus_fast import Message

from app.control.messages import Pause, SettingsDescribe
from tests.helpers.desktop import private_bus, wayland_server, x_server
from tests.helpers.served_agent import ServedAgent
from tests.helpers.tray_host import Desk, Host, menu_with, run, until
from tests.helpers.xembed_host import XembedHost

pytest.importorskip(
    "PySide6.QtWidgets",
    reason="PySide6 or a library of the desktop is missing",
    exc_type=ImportError,  # a missing library is none of a missing module
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
NOTIFICATIONS = "org.freedesktop.Notifications"
NO_TRAY_S = 11.0
"""A little longer than a tray is waited for."""


@pytest.fixture
def desk(short_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    program = "weston" if request.param == "wayland" else "Xvfb"
    if not shutil.which(program) or not shutil.which("dbus-daemon"):
        pytest.skip(f"Debian's packages {program.lower()} and dbus-daemon are missing")
    state = short_path / "state"
    (state / "gpugoblin" / "window").mkdir(parents=True)
    (state / "gpugoblin" / "window" / "first-run").write_text("done")
    with ExitStack() as stack:
        bus = stack.enter_context(private_bus())
        server = wayland_server() if request.param == "wayland" else x_server()
        screen = stack.enter_context(server)
        served = stack.enter_context(ServedAgent("desktop", short_path / "control"))
        found = Desk(bus, screen, served)
        found.environment["XDG_STATE_HOME"] = str(state)
        yield found
        if found.process is not None and found.process.poll() is None:
            found.process.kill()
            found.process.wait()


EVERY_DESK = pytest.mark.parametrize("desk", ["wayland", "x11"], indirect=True)


@pytest.mark.parametrize("desk", ["wayland"], indirect=True)
def test_on_wayland_a_late_tray_gets_the_icon_and_its_menu_pauses(desk: Desk) -> None:
    async def work(host: Host) -> None:
        desk.process = desk.start("--background")
        await asyncio.sleep(3.0)
        assert host.items == []
        await host.appear()
        await until(lambda: host.items)
        await menu_with(host, "Pause for an hour")
        assert len(await host.property("IconPixmap")) > 0
        await host.click("Pause for an hour")
        await until(lambda: any(isinstance(one, Pause) for one in desk.served.asked))
        await menu_with(host, "Resume")
        desk.end()

    run(work, desk.address)


@EVERY_DESK
def test_the_window_opens_and_a_second_start_turns_its_page(desk: Desk) -> None:
    async def work(_host: Host) -> None:
        desk.process = desk.start()
        await until(lambda: _has_window(desk))
        second = desk.start("--page", "history")
        await until(lambda: second.poll() is not None)
        assert second.returncode == 0
        assert desk.process.poll() is None
        desk.end()

    run(work, desk.address)


@pytest.mark.parametrize("desk", ["x11"], indirect=True)
def test_np3553_a_panel_that_knows_xembed_alone_gets_the_icon(desk: Desk) -> None:
    async def work(_host: Host) -> None:
        with XembedHost(desk.environment["DISPLAY"]) as panel:
            desk.process = desk.start("--background")
            await until(panel.look)
            assert len(panel.docked) == 1
            desk.end()

    run(work, desk.address)


@EVERY_DESK
def test_without_a_tray_it_says_so_once_and_is_found(desk: Desk) -> None:
    """In the background: one notification, no window; starting it again opens one."""

    async def work(host: Host) -> None:
        told: list[list[object]] = []

        def notify(message: Message) -> tuple[str, list[object]]:
            told.append(list(message.body))
            return "u", [7]

        host.stub.answers[NOTIFICATIONS, "Notify"] = notify
        await host.stub.own(NOTIFICATIONS)
        desk.process = desk.start("--background")
        await until(lambda: told)
        assert "runs in the background" in str(told[0][3])
        await asyncio.sleep(1.0)
        assert not _has_window(desk), "nothing jumps at anybody"
        second = desk.start()
        await until(lambda: second.poll() is not None)
        assert second.returncode == 0
        await until(lambda: _has_window(desk))
        desk.end()
        desk.process = desk.start("--background")
        await asyncio.sleep(NO_TRAY_S)
        assert len(told) == 1, "it is not news the next time"
        desk.end()

    run(work, desk.address)


def _has_window(desk: Desk) -> bool:
    """A window asks for the settings; the tray alone does not."""
    return any(isinstance(one, SettingsDescribe) for one in desk.served.asked)
