"""What the tests of the node's parts start from: rows alone, a node, a node with volunteers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.lab import Lab, grid_settings
from tests.helpers.node import LabNode
from tests.simulation.world import World

__all__: list[str] = []


@pytest.fixture
def world() -> Iterator[World]:
    """A simulated world in which nothing is lost and nobody is killed."""
    made = World(seed=7)
    yield made
    made.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A node with its own engine and a researcher on its Unix socket."""
    with LabNode(tmp_path) as node:
        made = Lab(node, tmp_path)
        yield made
        made.client.close()


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Lab]:
    """A node that takes volunteers over TLS."""
    with LabNode(tmp_path, **grid_settings()) as node:
        made = Lab(node, tmp_path)
        yield made
        made.client.close()
