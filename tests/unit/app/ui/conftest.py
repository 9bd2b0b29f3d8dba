"""Windows without a screen, and a fake agent behind them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
pytest.importorskip(
    "PySide6.QtWidgets",
    reason="PySide6 or a library of the desktop is missing",
    exc_type=ImportError,  # a missing library is none of a missing module
)

from pytestqt.qtbot import QtBot

from app.ui.actions import Actions
from app.ui.link import Link
from app.ui.pages.page import Context
from app.ui.store import Store
from tests.helpers.served_agent import ServedAgent

WAIT_MS = 20_000


@pytest.fixture
def served(qapp: object, short_path: Path) -> Iterator[ServedAgent]:
    with ServedAgent("desktop", short_path / "control") as agent:
        yield agent


@pytest.fixture
def link(served: ServedAgent, qtbot: QtBot) -> Iterator[Link]:
    """A link that is connected and has its items."""
    found = Link(served.directory)
    with qtbot.waitSignal(found.changed, timeout=WAIT_MS):
        found.open()
    yield found
    found.close()


@pytest.fixture
def told() -> list[str]:
    """What the window said at its foot."""
    return []


@pytest.fixture
def context(link: Link, qtbot: QtBot, told: list[str]) -> Context:
    """A context whose settings are known."""
    store = Store(link, link)
    store.read()
    qtbot.waitUntil(lambda: bool(store.settings and store.values), timeout=WAIT_MS)
    return Context(link, store, Actions(link, told.append), told.append)


@pytest.fixture
def until(qtbot: QtBot) -> Callable[[Callable[[], bool]], None]:
    """Lets Qt run until something holds."""
    return lambda holds: qtbot.waitUntil(holds, timeout=WAIT_MS)
