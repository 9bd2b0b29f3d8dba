"""A node with volunteers in the middle of a job, and its configuration as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server_stub.node.settings import template
from tests.helpers.lab import Lab, grid_settings
from tests.helpers.node import LabNode, lab_settings

__all__: list[str] = []


@pytest.fixture
def given() -> dict[str, object]:
    return grid_settings()


@pytest.fixture
def config(tmp_path: Path, given: dict[str, object]) -> Path:
    path = tmp_path / "node.toml"
    values = lab_settings(tmp_path, **given).values
    shown = {name: value for name, value in values.items() if value not in ("", None)}
    path.write_text(template(shown))
    return path


@pytest.fixture
def grid(tmp_path: Path, given: dict[str, object]) -> Iterator[Lab]:
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as made:
        yield made
