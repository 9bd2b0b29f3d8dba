"""A control for each kind of setting, from its declaration alone."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QLineEdit, QSpinBox
from pytestqt.qtbot import QtBot

from app.control.messages import SettingItem
from app.ui.widgets.setting import SettingRow, plain


def row(qtbot: QtBot, kind: Any, default: Any, **changed: Any) -> tuple[SettingRow, list[Any]]:
    setting = SettingItem("a.b", "policy", kind, default, "minutes", "Says `what`.", **changed)
    made = SettingRow(setting)
    qtbot.addWidget(made)
    chosen: list[Any] = []
    made.chosen.connect(lambda name, value: chosen.append((name, value)))
    made.show_value(default, is_fixed=False)
    return made, chosen


def test_a_switch(qtbot: QtBot) -> None:
    made, chosen = row(qtbot, "bool", True)
    assert isinstance(made.control, QCheckBox)
    assert made.control.isChecked()
    made.control.click()
    assert chosen == [("a.b", False)]


def test_a_number_stays_in_its_bounds(qtbot: QtBot) -> None:
    made, chosen = row(qtbot, "int", 5, minimum=1.0, maximum=60.0)
    assert isinstance(made.control, QSpinBox)
    made.control.setValue(1000)
    assert chosen == [("a.b", 60)]


def test_a_real_number(qtbot: QtBot) -> None:
    made, chosen = row(qtbot, "float", 0.3, minimum=0.0, maximum=10.0)
    assert isinstance(made.control, QDoubleSpinBox)
    made.control.setValue(0.25)
    assert chosen == [("a.b", 0.25)]


def test_a_choice(qtbot: QtBot) -> None:
    made, chosen = row(qtbot, "text", "go_on", choices=("stop", "go_on"))
    assert isinstance(made.control, QComboBox)
    assert made.control.currentText() == "go on"
    made.control.setCurrentIndex(0)
    made.control.activated.emit(0)
    assert chosen == [("a.b", "stop")]


def test_a_list(qtbot: QtBot) -> None:
    made, chosen = row(qtbot, "texts", ("steam",))
    assert isinstance(made.control, QLineEdit)
    assert made.control.text() == "steam"
    made.control.setText(" steam , , doom ")
    qtbot.keyClick(made.control, Qt.Key.Key_Return)
    assert chosen == [("a.b", ("steam", "doom"))]


def test_showing_a_value_is_not_choosing_it(qtbot: QtBot) -> None:
    made, chosen = row(qtbot, "int", 5, minimum=1.0, maximum=60.0)
    made.show_value(7, is_fixed=False)
    assert chosen == []


def test_what_the_profile_decides_cannot_be_changed(qtbot: QtBot) -> None:
    made, _ = row(qtbot, "bool", True)
    made.show_value(True, is_fixed=True)
    assert not made.isEnabled()
    assert made.control.toolTip()


@pytest.mark.parametrize(("text", "words"), [("Says `a.b` so.", "Says a.b so."), ("", "")])
def test_sentences_have_no_marks(text: str, words: str) -> None:
    assert plain(text) == words
