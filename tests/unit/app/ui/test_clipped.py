"""No text is cut off: not in a language 40 % longer, not at 200 %, not on a screen of 800 x 600.

The program runs without a screen in a process of its own at twice the size of every pixel; what it
would show is measured widget by widget, and kept as pictures where a folder is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from pathlib import Path
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QApplication, QAbstractButton, QComboBox, QLabel, QListWidget, QScrollArea, QWidget,
)
from app.control import texts
from app.ui.autostart import Autostart
from app.ui.firstrun.progress import STEPS, Progress
from app.ui.firstrun.wizard import Wizard
from app.ui.program import Program, Setup
from app.ui.notify import Budget
from app.ui.window import PAGE_NAMES
from tests.helpers.pseudo import speak_pseudo
from tests.helpers.served_agent import ServedAgent
import time

base, language, width, height = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
application = QApplication([])
application.setStyle("Fusion")
assert application.primaryScreen().devicePixelRatio() == 2.0
speak_pseudo() if language == "pseudo" else texts.speak(language)

def settle(holds=lambda: False, least_s=0.3):
    end_s = time.monotonic() + least_s
    while time.monotonic() < end_s:
        application.processEvents()
        time.sleep(0.005)

def text_of(each):
    if isinstance(each, (QLabel, QAbstractButton)):
        return each.text()
    return each.currentText() if isinstance(each, QComboBox) else ""

def clipped(top):
    for each in top.findChildren(QWidget):
        if not each.isVisible() or not text_of(each) or each.objectName().startswith("qt_"):
            continue
        if isinstance(each, QLabel) and each.wordWrap():
            needs = each.heightForWidth(each.width())
            if each.height() < needs:
                yield f"{text_of(each)!r} is {each.height()} high and needs {needs}"
        elif each.width() < each.minimumSizeHint().width():
            needs = each.minimumSizeHint().width()
            yield f"{text_of(each)!r} is {each.width()} wide and needs {needs}"
    for area in top.findChildren(QScrollArea):
        if area.isVisible() and area.horizontalScrollBar().maximum() > 0:
            yield f"the page {area.accessibleName()!r} is wider than the window"
    for rows in top.findChildren(QListWidget):
        for place in range(rows.count() if rows.isVisible() else 0):
            wide = max(rows.fontMetrics().horizontalAdvance(word)
                       for word in rows.item(place).text().split())
            if wide > rows.viewport().width() - 28:  # what the style puts beside a name
                yield f"{rows.item(place).text()!r} of the list is cut off"
            box = rows.visualItemRect(rows.item(place)).adjusted(22, 0, -22, 0)  # inside the style
            text = rows.fontMetrics().boundingRect(
                box.adjusted(0, 0, 0, 1000), Qt.TextFlag.TextWordWrap, rows.item(place).text()
            )
            if text.height() > box.height():
                yield f"{rows.item(place).text()!r} of the list has no room for its lines"

def look(top, name):
    settle()
    if top.width() > width or top.height() > height:
        print(f"{name}: the window is {top.width()} x {top.height()}")
    for fault in clipped(top):
        print(f"{name}: {fault}")
    top.grab().save(str(base / f"{name}.png"))

for recording, pages in (("desktop", PAGE_NAMES), ("troubles", STEPS)):
    with ServedAgent(recording, base / recording) as served:
        if recording == "desktop":
            served.step(1)
            served.step(2)
        progress = Progress(base / "first-run")
        program = Program(application, Setup(
            served.directory, None, True, "x", progress, Budget(base / "told"),
        ))
        program.begin()
        settle(least_s=0.5)
        if recording == "desktop":
            shown = program.open("now")
        else:
            shown = Wizard(program._context(), Autostart("x", base), progress)
            shown.show_items(program.link.items)
            shown.show()
        shown.resize(width, height)
        for page in pages:
            shown.open_page(page) if recording == "desktop" else shown.open(page)
            look(shown, f"{recording}-{page}")
        shown.hide()
        program._end()
"""


def faults(folder: Path, language: str, width: int, height: int) -> list[str]:
    """What is cut off, a line each; the pictures lie in the folder."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": "2"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), language, str(width), str(height)],
        env=environment, capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("de", "ru", "ja")]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("language", ["pseudo", *SLOW])
def test_b2213_nothing_is_cut_off_at_twice_the_size(short_path: Path, language: str) -> None:
    found = faults(short_path, language, 800, 560)
    assert found == []
    assert len(list(short_path.glob("*.png"))) == 14
