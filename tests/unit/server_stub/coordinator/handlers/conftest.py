"""Every test of a handler runs over SQLite and over PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers import postgres
from tests.helpers.coordinator import Desk, memory


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def ground(request: pytest.FixtureRequest) -> str:
    """A prepared database of PostgreSQL, or nothing: then SQLite is used."""
    return "" if request.param == "sqlite" else str(request.getfixturevalue("prepared"))


@pytest.fixture
def desk(ground: str) -> Iterator[Desk]:
    with postgres.undone(ground) if ground else memory() as transaction:
        yield Desk(transaction)
