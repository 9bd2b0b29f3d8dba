"""How windows are looked at: for a while, and with the colours of other desktops.

Owns: the running of Qt's loop for a given time, and two palettes.
"""

from __future__ import annotations

import time
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

__all__ = ["contrast_palette", "dark_palette", "settle"]

SETTLE_S: Final = 1.5
LEAST_TURNS: Final = 10


def settle(application: QApplication, duration_s: float = SETTLE_S) -> None:
    """Lets Qt run for a while, and some turns of its loop however busy the machine is."""
    end_s, turns = time.monotonic() + duration_s, 0
    while time.monotonic() < end_s or turns < LEAST_TURNS:
        turns += 1
        application.processEvents()
        time.sleep(0.01)


def dark_palette() -> QPalette:
    """The colours of a dark desktop, as Fusion has them."""
    roles = QPalette.ColorRole
    palette = QPalette()
    for role, colour in (
        (roles.Window, "#1f2326"), (roles.WindowText, "#e8e8e8"), (roles.Base, "#16191b"),
        (roles.AlternateBase, "#2a2f33"), (roles.Text, "#e8e8e8"), (roles.Button, "#2c3135"),
        (roles.ButtonText, "#e8e8e8"), (roles.Highlight, "#3d8fd1"), (roles.Mid, "#454b50"),
        (roles.HighlightedText, "#ffffff"), (roles.PlaceholderText, "#9aa0a6"),
    ):  # fmt: skip
        palette.setColor(role, QColor(colour))
    palette.setColor(roles.Dark, QColor(Qt.GlobalColor.black))
    return palette


def contrast_palette() -> QPalette:
    """White and yellow on black, as desktops have it for people who see little."""
    roles = QPalette.ColorRole
    palette = QPalette()
    black = (roles.Window, roles.Base, roles.AlternateBase, roles.Button, roles.HighlightedText)
    white = (roles.WindowText, roles.Text, roles.ButtonText, roles.PlaceholderText, roles.Mid)
    for role in black:
        palette.setColor(role, QColor(Qt.GlobalColor.black))
    for role in white:
        palette.setColor(role, QColor(Qt.GlobalColor.white))
    palette.setColor(roles.Highlight, QColor(Qt.GlobalColor.yellow))
    return palette
