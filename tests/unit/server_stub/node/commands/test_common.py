"""What the commands share: configuration and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node.commands import main

__all__: list[str] = []


def test_a_wrong_configuration_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('state_dir = "/x"\ntypo = 1\n')
    assert main(["serve", "--config", str(path)]) == 1
    error = capsys.readouterr().err
    assert "typo" in error
    assert "[setting_unknown]" in error
