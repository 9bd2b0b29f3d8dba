"""Makes a picture of every page of the window and of the first run, for people who judge them.

    .venv/bin/python scripts/picture_pages.py FOLDER [LANGUAGE ...] [--pseudo] [--contrast]

Owns: which pages there are. They are drawn without a screen, light and dark, in each language, and
`LANGUAGE.html` shows all of them; `all` stands for every language. With `--pseudo` every text is
lengthened by 40 %, as the test of clipped labels has it.
"""

from __future__ import annotations

import argparse
import html
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QWidget

from app.control import texts
from app.ui.autostart import Autostart
from app.ui.firstrun.progress import DONE, STEPS, Progress
from app.ui.firstrun.wizard import Wizard
from app.ui.notify import Budget
from app.ui.program import Program, Setup
from app.ui.window import PAGE_NAMES
from tests.helpers.looks import contrast_palette, dark_palette, settle
from tests.helpers.pseudo import speak_pseudo
from tests.helpers.served_agent import ServedAgent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("languages", nargs="*", default=["en"])
    parser.add_argument("--pseudo", action="store_true")
    parser.add_argument("--contrast", action="store_true", help="also in high contrast")
    parser.add_argument("--size", default="900x640")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    options.folder.mkdir(parents=True, exist_ok=True)
    application = QApplication([])
    application.setStyle("Fusion")
    palettes = {"light": QPalette(), "dark": dark_palette()}
    if options.contrast:
        palettes["contrast"] = contrast_palette()
    languages = list(texts.LANGUAGES) if options.languages == ["all"] else options.languages
    for language in languages:
        if options.pseudo:
            speak_pseudo()
        else:
            texts.speak(language)
        for scheme, palette in palettes.items():
            application.setPalette(palette)
            stem = options.folder / f"{language}-{scheme}"
            _window(application, stem, width, height)
            _first_run(application, stem, min(width, 680), min(height, 620))
        _write_page(options.folder, language)
    return 0


def _write_page(folder: Path, language: str) -> None:
    """One page with every picture of a language, light beside dark."""
    names = [*PAGE_NAMES, *(f"first-{step}" for step in STEPS)]
    rows = "".join(
        f"<h2>{name}</h2><p>"
        + "".join(
            f'<img src="{language}-{scheme}-{name}.png" alt="{name}, {scheme}"> '
            for scheme in ("light", "dark")
        )
        + "</p>\n"
        for name in names
    )
    title = html.escape(texts.LANGUAGES.get(language, language))
    (folder / f"{language}.html").write_text(
        f'<!DOCTYPE html>\n<html lang="{language}"><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font-family:sans-serif;background:#888}img{max-width:48%}</style>\n"
        f"<h1>{title}</h1>\n{rows}</html>\n",
        encoding="utf-8",
    )


def _window(application: QApplication, stem: Path, width: int, height: int) -> None:
    with (
        tempfile.TemporaryDirectory() as base,
        ServedAgent("desktop", Path(base) / "control") as served,
    ):
        served.step(1)
        served.step(2)
        progress = Progress(Path(base) / "first-run")
        progress.keep(DONE)
        setup = Setup(
            served.directory, None, False, "gpugoblin app", progress, Budget(Path(base) / "told")
        )
        program = Program(application, setup)
        program.begin()
        window = program.open()
        window.resize(width, height)
        for page in PAGE_NAMES:
            window.open_page(page)
            _keep(application, window, f"{stem}-{page}.png")
        window.hide()
        program._end()


def _first_run(application: QApplication, stem: Path, width: int, height: int) -> None:
    with (
        tempfile.TemporaryDirectory() as base,
        ServedAgent("troubles", Path(base) / "control") as served,
    ):
        setup = Setup(
            served.directory, None, True, "gpugoblin app", Progress(Path(base) / "first-run"),
            Budget(Path(base) / "told"),
        )  # fmt: skip
        program = Program(application, setup)
        program.begin()
        settle(application, 1.0)
        wizard = Wizard(program._context(), Autostart("x", Path(base)), setup.progress)
        program.link.changed.connect(wizard.show_items)
        wizard.show_items(program.link.items)
        wizard.resize(width, height)
        wizard.show()
        for step in STEPS:
            if step == "privacy":
                served.step(1)
            wizard.open(step)
            _keep(application, wizard, f"{stem}-first-{step}.png")
        wizard.hide()
        program._end()


def _keep(application: QApplication, window: QWidget, name: str) -> None:
    settle(application, 0.6)
    window.grab().save(name)
    print(Path(name).name)


if __name__ == "__main__":
    sys.exit(main())
