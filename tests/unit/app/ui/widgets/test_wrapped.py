"""A button whose long text wraps, is clicked with it, and is named."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QRadioButton, QStyleFactory
from pytestqt.qtbot import QtBot

from app.ui.widgets.wrapped import Wrapped
from tests.helpers.looks import dark_palette

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


def _light(color: QColor) -> float:
    """Relative luminance (WCAG 2)."""
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
             for part in (color.redF(), color.greenF(), color.blueF())]  # fmt: skip
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("kind", [QCheckBox, QRadioButton])
@pytest.mark.parametrize("is_dark", [False, True])
def test_an_empty_box_is_seen_on_light_and_dark(
    kind: type[QAbstractButton], is_dark: bool, qtbot: QtBot
) -> None:
    button = kind()
    wrapped = Wrapped(button, "Lend this card")
    qtbot.addWidget(wrapped)
    style = QStyleFactory.create("Fusion")
    for widget in (wrapped, button):
        widget.setStyle(style)
    wrapped.setPalette(dark_palette() if is_dark else QPalette())
    wrapped.setAutoFillBackground(True)
    wrapped.resize(200, 40)
    wrapped.show()
    ground = _light(wrapped.palette().color(QPalette.ColorRole.Window))
    picture = wrapped.grab(button.geometry()).toImage()
    lights = [_light(picture.pixelColor(x, y))
              for x in range(picture.width()) for y in range(picture.height())]  # fmt: skip
    ratios = [(max(ground, one) + 0.05) / (min(ground, one) + 0.05) for one in lights]
    assert sum(ratio >= (3.0 if is_dark else 1.5) for ratio in ratios) >= 20, max(ratios)
