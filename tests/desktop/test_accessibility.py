"""What a screen reader hears: over a real accessibility bus, from the real program.

Each page of the window and of the first run is walked as a screen reader walks it: whatever can
have the focus has a name and a role.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.ui.main import PAGES
from tests.helpers.desktop import private_bus, x_server
from tests.helpers.screen_reader import LAUNCHER, Control, Reader, accessibility, reader
from tests.helpers.served_agent import ServedAgent
from tests.helpers.tray_host import Desk

pytest.importorskip(
    "PySide6.QtWidgets",
    reason="PySide6 or a library of the desktop is missing",
    exc_type=ImportError,
)
if not shutil.which("Xvfb") or not shutil.which("dbus-daemon") or not LAUNCHER.exists():
    pytest.skip("Debian's xvfb, dbus-daemon and at-spi2-core are missing", allow_module_level=True)

NO_ROLE = frozenset({"", "invalid", "unknown"})
DEADLINE_S = 60.0


@pytest.fixture
def desk(short_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    recording, step = request.param
    state = short_path / "state"
    kept = state / "gpugoblin" / "window"
    kept.mkdir(parents=True)
    (kept / "first-run").write_text(step)
    with (
        private_bus() as bus,
        x_server() as screen,
        accessibility(bus, screen),
        ServedAgent(recording, short_path / "control") as served,
    ):
        found = Desk(bus, screen, served)
        found.environment |= {
            "QT_ACCESSIBILITY": "1",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
            "XDG_STATE_HOME": str(state),
        }
        del found.environment["NO_AT_BRIDGE"]
        yield found
        if found.process is not None and found.process.poll() is None:
            found.process.kill()
            found.process.wait()


def heard(controls: list[Control]) -> list[Control]:
    """What can have the focus now, each with a name and a role."""
    found = [each for each in controls if each.is_showing and each.is_focusable]
    for each in found:
        assert each.name, f"a {each.role} at {each.path} has no name"
        assert each.role not in NO_ROLE, each
    return found


async def until_shown(hears: Reader, pid: int, name: str) -> list[Control]:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            controls = await hears.controls(pid)
            if any(each.is_showing and name in each.name for each in controls):
                return controls
            await asyncio.sleep(0.2)


SIGNS = {
    "now": "Finish the task, then pause", "when": "Nights and weekends",
    "how_much": "How much of the time a card computes", "labs": "Never compute for these labs",
    "history": "Save as CSV", "privacy": "What a lab sees",
    "account": "Start gpugoblin when I log in", "help": "Look at everything that lending needs",
}  # fmt: skip
"""Something that is shown on each page and on no other."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("desk", [("desktop", "done")], indirect=True)
def test_every_control_of_the_window_has_a_name_and_a_role(desk: Desk) -> None:
    async def work() -> None:
        desk.process = desk.start()
        async with reader(desk.address) as hears:
            await until_shown(hears, desk.process.pid, "Pages")
            roles: set[str] = set()
            for page in PAGES:
                second = desk.start("--page", page)
                assert await asyncio.to_thread(second.wait) == 0
                controls = await until_shown(hears, desk.process.pid, SIGNS[page])
                roles |= {each.role for each in heard(controls)}
            assert {
                "push button", "check box", "radio button", "spin box", "text", "combo box",
                "list item",
            } <= roles, roles  # fmt: skip

    asyncio.run(work())


STEPS = {
    "welcome": "Four questions follow", "account": "Send the letter",
    "cards": "Lend Example GPU", "profile": "Only when I am away",
    "privacy": "What the coordinator sees", "start": "Start gpugoblin when I log in",
}  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("desk", "sign"),
    [(("troubles", step), sign) for step, sign in STEPS.items()],
    indirect=["desk"],
    ids=list(STEPS),
)
def test_every_control_of_the_first_run_has_a_name_and_a_role(desk: Desk, sign: str) -> None:
    async def work() -> None:
        desk.process = desk.start()
        async with reader(desk.address) as hears:
            controls = await until_shown(hears, desk.process.pid, sign)
            names = {each.name for each in heard(controls)}
            assert names & {"Continue", "Skip this", "Finish"}, names

    asyncio.run(work())
