"""A button whose long text wraps, is clicked with it, and is named."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox
from pytestqt.qtbot import QtBot

from app.ui.widgets.wrapped import Wrapped

LONG = "Stop everything while a program fills the screen, whatever it may be. " * 4


def test_a_long_text_wraps_and_clicks(qtbot: QtBot) -> None:
    box = QCheckBox()
    wrapped = Wrapped(box, LONG)
    qtbot.addWidget(wrapped)
    wrapped.resize(300, wrapped.heightForWidth(300))
    wrapped.show()
    assert wrapped.minimumSizeHint().width() <= 300
    assert wrapped._label.height() > 2 * wrapped._label.fontMetrics().height()
    assert box.accessibleName() == LONG
    qtbot.mouseClick(wrapped._label, Qt.MouseButton.LeftButton)  # type: ignore[no-untyped-call]
    assert box.isChecked()
    box.setEnabled(False)
    qtbot.mouseClick(wrapped._label, Qt.MouseButton.LeftButton)  # type: ignore[no-untyped-call]
    assert box.isChecked()
