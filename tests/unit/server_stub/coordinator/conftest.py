"""A coordinator without sockets for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.coordinator import Desk, memory


@pytest.fixture
def desk() -> Iterator[Desk]:
    with memory() as tx:
        yield Desk(tx)
