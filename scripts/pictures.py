"""Makes the pictures of the window that the docs show, from recordings of an agent.

    .venv/bin/python scripts/pictures.py [FOLDER]

Owns: which pages are shown. They are drawn without a screen, light and dark.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from app.ui.firstrun.progress import DONE, Progress
from app.ui.program import Program, Setup
from tests.helpers.served_agent import ServedAgent

DOCS = Path(__file__).resolve().parent.parent / "docs" / "contributor"
PICTURES = (("now", "light"), ("when", "light"), ("history", "dark"))
STEP = 2
SETTLE_S = 1.5
WIDTH, HEIGHT = 900, 640


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    application = QApplication([])
    application.setStyle("Fusion")
    with (
        tempfile.TemporaryDirectory() as base,
        ServedAgent("desktop", Path(base) / "control") as served,
    ):
        for number in range(1, STEP + 1):
            served.step(number)
        progress = Progress(Path(base) / "first-run")
        progress.keep(DONE)
        program = Program(
            application, Setup(served.directory, None, False, "gpugoblin app", progress)
        )
        program.begin()
        window = program.open()
        window.resize(WIDTH, HEIGHT)
        for page, scheme in PICTURES:
            application.setPalette(dark_palette() if scheme == "dark" else QPalette())
            window.open_page(page)
            settle(application)
            target = folder / f"window-{page}.png"
            window.grab().save(str(target))
            print(target.name)
        window.hide()
        program._end()
    return 0


def settle(application: QApplication, duration_s: float = SETTLE_S) -> None:
    """Lets Qt run for a while."""
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
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


if __name__ == "__main__":
    sys.exit(main())
