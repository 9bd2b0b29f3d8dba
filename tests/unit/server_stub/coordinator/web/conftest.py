"""A coordinator whose pages answer without sockets, and browsers for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server_stub.coordinator.handlers import operator
from server_stub.coordinator.store import SqliteStore, create
from tests.helpers.coordinator_front import Browser, Front

CHOSEN: dict[str, object] = {"mail_host": "127.0.0.1", "requests_burst": 10_000}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    create(tmp_path / "db")
    store = SqliteStore(tmp_path / "db")
    yield Front(store, chosen=CHOSEN)
    store.close()


@pytest.fixture
def ann(front: Front) -> Browser:
    """Somebody who is signed in."""
    browser = Browser(front)
    browser.sign_in("ann@example.org")
    return browser


@pytest.fixture
def boss(front: Front) -> Browser:
    """An operator who is signed in."""
    browser = Browser(front)
    browser.sign_in("boss@example.org")
    front.store.submit(
        lambda tx: operator.make_operator(tx, front.clock.now_s, "boss@example.org")
    ).result(10)
    return browser
