"""A configuration and a key are made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node.commands import main
from server_stub.node.settings import load

__all__: list[str] = []


def test_init_writes_a_configuration_and_a_key_once(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (tmp_path / "state" / "node.key").stat().st_mode & 0o777 == 0o600
    assert load(config).confirmed_no_confidential_data is False
    before = config.read_text()
    assert main(["init", "--config", str(config), "--state-dir", "/elsewhere"]) == 1
    assert config.read_text() == before
    assert "left as it is" in capsys.readouterr().err


@pytest.mark.parametrize("which", ["--state-dir", "--config"])
def test_init_where_nothing_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    (tmp_path / "file").touch()
    given = {"--state-dir": str(tmp_path / "state"), "--config": str(tmp_path / "node.toml")}
    given[which] = str(tmp_path / "file" / "place")
    assert main(["init", *(word for pair in given.items() for word in pair)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{tmp_path / 'file'}" in printed.err
    assert "[init_refused]" in printed.err


def test_the_directory_of_a_coordinator_is_not_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from server_stub.coordinator.state import initialize

    state = initialize(tmp_path / "coordinator.toml", port=0).state_dir
    before = sorted(path.name for path in state.iterdir())
    config = tmp_path / "node.toml"
    assert main(["init", "--config", str(config), "--state-dir", str(state)]) == 1
    assert "[state_dir_shared]" in capsys.readouterr().err
    assert not config.exists()
    config.write_text(f'state_dir = "{state}"\n')
    assert main(["serve", "--config", str(config)]) == 1
    assert "[state_dir_shared]" in capsys.readouterr().err
    assert sorted(path.name for path in state.iterdir()) == before
