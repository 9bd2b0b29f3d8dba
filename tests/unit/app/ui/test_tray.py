"""The tray's menu: every daily act in two clicks, whatever the state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QMenu, QSystemTrayIcon
from pytestqt.qtbot import QtBot

from app.control.messages import CardItem, Pause, Quit
from app.ui.pages.page import Context
from app.ui.tray import LOOK_MS, Doors, Tray
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def texts(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if action.text()]


def trigger(menu: QMenu, text: str) -> None:
    for action in menu.actions():
        if action.text() == text:
            action.trigger()
            return
    raise AssertionError(f"{text!r} is not in {texts(menu)}")


@pytest.fixture
def opened() -> list[str]:
    return []


@pytest.fixture
def tray(context: Context, opened: list[str], qtbot: QtBot) -> Tray:
    doors = Doors(lambda: opened.append("window"), lambda: opened.append("quit"))
    made = Tray(context.actions, doors, context.link)
    context.link.changed.connect(made.show)
    made.show(context.link.items)
    return made


def test_pause_is_two_clicks(tray: Tray, served: ServedAgent, until: Until) -> None:
    trigger(tray.menu, "Pause for an hour")
    until(lambda: isinstance(served.asked[-1], Pause))
    until(lambda: "Resume" in texts(tray.menu))
    trigger(tray.menu, "Resume")
    until(lambda: "Pause for an hour" in texts(tray.menu))


def test_one_card_has_a_menu_of_its_own(tray: Tray, context: Context, until: Until) -> None:
    menus = [action.menu() for action in tray.menu.actions() if action.menu()]
    assert len(menus) == 2
    second = menus[1]
    assert isinstance(second, QMenu)
    trigger(second, "Pause until I resume")

    def paused() -> bool:
        first, other = context.link.items["card-0"], context.link.items["card-1"]
        assert isinstance(first, CardItem)
        assert isinstance(other, CardItem)
        return other.reasons[0].code == "owner_paused" and first.reasons[0].code != "owner_paused"

    until(paused)


def test_menus_that_were_are_gone(tray: Tray, context: Context, until: Until) -> None:
    items = dict(context.link.items)
    for _ in range(20):
        tray.show({}, "No agent listens.")
        tray.show(items)
    until(lambda: len(tray.menu.findChildren(QMenu)) == 2)


def test_without_an_agent_the_window_and_quit_are_left(tray: Tray, opened: list[str]) -> None:
    tray.show({}, "No agent listens.")
    assert texts(tray.menu) == ["Not connected to the agent", "Open gpugoblin", "Quit"]
    trigger(tray.menu, "Open gpugoblin")
    trigger(tray.menu, "Quit")
    assert opened == ["window", "quit"]


def test_quitting_the_window_does_not_end_the_agent(tray: Tray, served: ServedAgent) -> None:
    trigger(tray.menu, "Quit")
    assert not any(isinstance(one, Quit) for one in served.asked)


def test_a_host_that_comes_late_gets_an_icon(
    context: Context, qapp: object, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    there = [False]
    monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", staticmethod(lambda: there[0]))
    tray = Tray(context.actions, Doors(lambda: None, lambda: None))
    assert tray._icon is None
    there[0] = True
    tray._look()
    assert tray._icon is not None
    assert not tray._timer.isActive()
    tray.close()


def test_looking_for_a_host_wakes_six_times_a_minute_at_most() -> None:
    assert LOOK_MS >= 10_000


def test_the_menu_is_filled_anew_only_when_it_changes(tray: Tray, context: Context) -> None:
    before = tray.menu.actions()
    tray.show(dict(context.link.items))
    assert tray.menu.actions() == before
