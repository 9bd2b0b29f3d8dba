"""A quiet simulated world for the rules' tests: nothing is lost, nobody is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.world import World

__all__: list[str] = []


@pytest.fixture
def world() -> Iterator[World]:
    made = World(seed=7)
    yield made
    made.close()
