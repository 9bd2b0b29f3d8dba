"""A coordinator without sockets for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers import postgres
from tests.helpers.coordinator import Desk, memory
from tests.helpers.postgres import Postgres


@pytest.fixture
def desk() -> Iterator[Desk]:
    with memory() as tx:
        yield Desk(tx)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A PostgreSQL of this run, or the reason why there is none."""
    if postgres.missing():
        pytest.skip(postgres.MISSING)
    with postgres.running() as found:
        yield found


@pytest.fixture
def dsn(server: Postgres) -> str:
    """An empty database in it."""
    return server.new_database()


@pytest.fixture(scope="session")
def prepared(server: Postgres) -> str:
    """A database with empty tables, in which tests undo what they did."""
    from server_stub.coordinator import postgres as database

    found = server.new_database()
    database.create(found)
    return found
