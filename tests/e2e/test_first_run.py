"""The first run end to end: a new machine, the real agent, coordinator and lab, and a real letter.

The owner types the coordinator's address and a mail address, reads the letter, looks at what the
cards can do, says when to lend, and is done. A lab's work is then computed and verified, and the
window says for whom.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
pytest.importorskip(
    "PySide6.QtWidgets",
    reason="PySide6 or a library of the desktop is missing",
    exc_type=ImportError,  # a missing library is none of a missing module
)

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

import gpugoblin as gg
from app.main import listens_at
from app.ui.firstrun.account import AccountStep
from app.ui.firstrun.cards import CardsStep
from app.ui.firstrun.progress import DONE, Progress
from app.ui.firstrun.steps import ProfileStep, StartStep
from app.ui.firstrun.wizard import Wizard
from app.ui.notify import Budget
from app.ui.pages.account import AccountPage
from app.ui.pages.now import NowPage
from app.ui.program import Program, Setup
from gpugoblin.units import MIB
from tests.helpers.lends import LENDS_ALWAYS
from tests.helpers.mailbox import Mailboxes
from tests.helpers.network import AGENT, Network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
ANN = "ann@example.org"
PATIENCE_MS = 60_000
Until = Callable[[Callable[[], object]], None]


@pytest.fixture
def boxes() -> Iterator[Mailboxes]:
    with Mailboxes() as found:
        yield found


@pytest.fixture
def network(boxes: Mailboxes) -> Iterator[Network]:
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    letters = {"mail_host": "127.0.0.1", "mail_port": boxes.port, "mail_tls": "off"}
    try:
        with Network(root, {}, coordinator=letters) as running:
            yield running
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def program(network: Network, qapp: QApplication) -> Iterator[Program]:
    """The window's program as it is before anything was set up; no coordinator is named."""
    root = network.root
    config = root / "new.toml"
    config.write_text(
        f'state_directory = "{root / "new"}"\n' + "\n".join(LENDS_ALWAYS) + "\n"
        f"[processor]\nthreads = 1\nshare = true\nmemory_bytes = {256 * MIB}\n"
        f"input_bytes = {256 * MIB}\noutput_bytes = {128 * MIB}\n"
    )
    network.programs.start("agent", [*AGENT, "--config", str(config)])
    setup = Setup(
        listens_at(config), None, False, "gpugoblin app --background",
        Progress(root / "first-run"), Budget(root / "told"),
    )  # fmt: skip
    made = Program(qapp, setup)
    made.begin()
    yield made
    for shown in (made.window, made.wizard):
        if shown is not None:
            shown.hide()
            shown.deleteLater()
    made._end()
    made.deleteLater()


@pytest.fixture
def until(qtbot: QtBot) -> Until:
    return lambda holds: qtbot.waitUntil(lambda: bool(holds()), timeout=PATIENCE_MS)


def typed(qtbot: QtBot, field: QLineEdit, text: str) -> None:
    """As a person does it: the text, then Enter."""
    field.setFocus()
    qtbot.keyClicks(field, text)  # type: ignore[no-untyped-call]
    qtbot.keyClick(field, Qt.Key.Key_Return)  # type: ignore[no-untyped-call]


def forth(qtbot: QtBot, wizard: Wizard, expected: str) -> None:
    qtbot.keyClick(wizard._next, Qt.Key.Key_Space)  # type: ignore[no-untyped-call]
    assert wizard.step == expected


def test_from_the_first_window_to_a_verified_task(
    network: Network, program: Program, boxes: Mailboxes, qtbot: QtBot, until: Until
) -> None:
    until(lambda: program.wizard is not None and program.wizard.isVisible())
    wizard = program.wizard
    assert wizard is not None
    assert wizard.step == "welcome"
    forth(qtbot, wizard, "account")
    _sign_in(network, wizard, boxes, qtbot, until)
    forth(qtbot, wizard, "cards")
    cards = wizard.steps["cards"]
    assert isinstance(cards, CardsStep)
    until(lambda: cards.rows and cards.rows[0].property("is_measured") is not None)
    assert "behind all walls" in cards.rows[0].result.text(), cards.rows[0].result.text()
    forth(qtbot, wizard, "profile")
    profile = wizard.steps["profile"]
    assert isinstance(profile, ProfileStep)
    profile.choices["always"].click()
    until(lambda: "Right now this would lend" in profile._effect.text())
    assert program.store is not None
    until(lambda: program.store is not None and program.store.values["profile"] == "always")
    forth(qtbot, wizard, "privacy")
    forth(qtbot, wizard, "start")
    start = wizard.steps["start"]
    assert isinstance(start, StartStep)
    until(lambda: "Everything is ready" in start._state.text())
    qtbot.keyClick(wizard._next, Qt.Key.Key_Space)  # type: ignore[no-untyped-call]
    until(lambda: program.window is not None and program.window.isVisible())
    assert Progress(network.root / "first-run").read() == DONE
    _compute(network)
    _look_at_window(program, until)


def _sign_in(
    network: Network, wizard: Wizard, boxes: Mailboxes, qtbot: QtBot, until: Until
) -> None:
    account = wizard.steps["account"]
    assert isinstance(account, AccountStep)
    until(lambda: account._part.isVisible())
    node = tomllib.loads((network.root / "node.toml").read_text())
    account._part.certificate.setText(node["coordinator_certificate_sha256"])
    typed(qtbot, account._part.address, node["coordinator_address"])
    until(lambda: account._send.isEnabled() and account._letter.isVisible())
    typed(qtbot, account._mailbox, ANN)
    until(lambda: ANN in account._answer.text())
    typed(qtbot, account._digits, "0000 0000")
    until(lambda: "Type its code" not in account._answer.text())
    assert not account.is_settled, "a wrong code opens nothing"
    account._digits.clear()
    typed(qtbot, account._digits, boxes.code(ANN))
    until(lambda: account.is_settled)
    assert wizard._next.text() == "Continue"


def _compute(network: Network) -> None:
    client = network.root / "client.toml"
    client.write_text(f'node = "unix:{network.node_socket}"\nnode_key = "{network.node_key}"\n')
    left, right = np.ones((64, 48), np.float32), np.ones((48, 32), np.float32)
    with gg.connect(config=client):
        array = gg.array(left) @ gg.array(right)
        job = gg.save([array], name="first", executor="grid", force=True).wait(timeout=60)
        by = job.info.verified_by
        assert by.product + by.recompute == job.info.tasks > 0
        assert (job.array[...] == 48).all()


def _look_at_window(program: Program, until: Until) -> None:
    window = program.window
    assert window is not None
    now, account = window.pages["now"], window.pages["account"]
    assert isinstance(now, NowPage)
    assert isinstance(account, AccountPage)
    until(lambda: "For lab-a: " in now._panels[0]._task.text())
    window.open_page("account")
    until(lambda: "(this one): last in touch" in account._machines.text())
