"""A configuration of a node that was made by `init`."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node.commands import main

__all__: list[str] = []


@pytest.fixture
def config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "node.toml"
    state = ["--state-dir", str(tmp_path / "state")]
    assert main(["init", "--config", str(path), *state, "--port", "0"]) == 0
    capsys.readouterr()
    return path
