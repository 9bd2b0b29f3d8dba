"""Enrolment and the switch at login."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.control.messages import AgentItem, Item, MachinesAre, Refused
from app.ui.autostart import Autostart
from app.ui.pages.account import AccountPage
from app.ui.pages.page import Context


def items(context: Context, **changed: object) -> dict[str, Item]:
    agent = context.link.items["agent"]
    assert isinstance(agent, AgentItem)
    return {"agent": msgspec.structs.replace(agent, **changed)}


def test_the_code_is_shown_and_copied(context: Context, qtbot: QtBot, tmp_path: Path) -> None:
    page = AccountPage(context, Autostart("x", tmp_path))
    qtbot.addWidget(page)
    page.show()
    page.show_items(items(context, state="not_enrolled", user_code="WDJB-MJHT"))
    assert page._code.isVisible()
    page._copy.click()
    assert QGuiApplication.clipboard().text() == "WDJB-MJHT"
    page.show_items(items(context, state="not_enrolled", user_code=""))
    assert page._enrol.isVisible()
    page.show_items(items(context, state="not_enrolled", user_code="", coordinator=""))
    assert page._part.isVisible()
    assert not page._enrol.isVisible()
    assert "No coordinator is named" in page._coordinator.text()
    page.show_items(items(context, state="working"))
    assert not page._code.isVisible()
    assert not page._part.isVisible()
    page.show_items({})
    assert "does not run" in page._state.text()


def test_all_machines_of_the_account_are_listed(
    context: Context, qtbot: QtBot, tmp_path: Path, until: Callable[[Callable[[], bool]], None]
) -> None:
    page = AccountPage(context, Autostart("x", tmp_path))
    qtbot.addWidget(page)
    page.come_to_front()
    until(lambda: "(this one): last in touch" in page._machines.text())
    first, second = page._machines.text().splitlines()
    assert first.endswith("Cards at work: 2. Credits: 1834.5.")
    assert "90c1-44d7-0f2e-5ab8: last in touch" in second
    page._listed(Refused(1, "link_away", "It is away.", "Wait."))
    assert page._machines.text() == "It is away. Wait."
    page._listed(MachinesAre(1, ()))
    assert not page._machines.isVisibleTo(page)


def test_the_switch_reads_the_real_state(
    context: Context, qtbot: QtBot, tmp_path: Path, told: list[str]
) -> None:
    autostart = Autostart("x", tmp_path / "a")
    page = AccountPage(context, autostart)
    qtbot.addWidget(page)
    page.come_to_front()
    assert not page._switch.isChecked()
    page._switch.click()
    assert autostart.is_on()
    autostart.set(False)
    page.come_to_front()
    assert not page._switch.isChecked()
    (tmp_path / "b").write_text("in the way")
    page._autostart = Autostart("x", tmp_path / "b")
    page._switch.click()
    assert not page._switch.isChecked()
    assert told
