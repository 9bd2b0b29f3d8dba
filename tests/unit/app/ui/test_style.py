"""The window follows the desktop's light and dark while it is open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory, QWidget
from pytestqt.qtbot import QtBot

from app.ui.autostart import Autostart
from app.ui.firstrun.progress import Progress
from app.ui.firstrun.wizard import Wizard
from app.ui.pages.page import Context
from app.ui.window import Window
from tests.helpers.looks import dark_palette

Until = Callable[[Callable[[], bool]], None]


def lightness(window: QWidget) -> int:
    """Of a place where a page is empty."""
    image = window.grab().toImage()
    return image.pixelColor(image.width() - 40, 40).lightness()


def test_it_turns_dark_and_light_again_while_it_is_open(
    context: Context, qapp: QApplication, tmp_path: Path, qtbot: QtBot, until: Until
) -> None:
    before, style = QPalette(qapp.palette()), qapp.style().name()
    qapp.setStyle(QStyleFactory.create("Fusion"))
    qapp.setPalette(QPalette())
    autostart = Autostart("x", tmp_path / "autostart")
    shown: list[QWidget] = [
        Window(context, autostart), Wizard(context, autostart, Progress(tmp_path / "first-run")),
    ]  # fmt: skip
    try:
        for window in shown:
            qtbot.addWidget(window)
            window.show()
            until(lambda window=window: lightness(window) > 200)  # type: ignore[misc] # a default
        for palette, is_dark in ((dark_palette(), True), (QPalette(), False)):
            qapp.setPalette(palette)
            for window in shown:
                until(lambda window=window, dark=is_dark: (lightness(window) < 80) is dark)  # type: ignore[misc] # defaults
    finally:
        for window in shown:
            window.hide()
        qapp.setStyle(QStyleFactory.create(style))
        qapp.setPalette(before)
