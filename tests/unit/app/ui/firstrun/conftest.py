"""The first run before an agent that waits to be enrolled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.ui.autostart import Autostart
from app.ui.firstrun.progress import Progress
from app.ui.firstrun.wizard import Wizard
from app.ui.pages.page import Context
from tests.helpers.served_agent import ServedAgent


@pytest.fixture
def served(qapp: object, short_path: Path) -> Iterator[ServedAgent]:
    with ServedAgent("troubles", short_path / "control") as agent:
        yield agent


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(tmp_path / "first-run")


def wizard_of(context: Context, tmp_path: Path, progress: Progress, qtbot: QtBot) -> Wizard:
    wizard = Wizard(context, Autostart("gpugoblin app", tmp_path / "autostart"), progress)
    qtbot.addWidget(wizard)
    context.link.changed.connect(wizard.show_items)
    wizard.show_items(context.link.items)
    wizard.come_up()
    return wizard


@pytest.fixture
def wizard(context: Context, tmp_path: Path, progress: Progress, qtbot: QtBot) -> Wizard:
    return wizard_of(context, tmp_path, progress, qtbot)
