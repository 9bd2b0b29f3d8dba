"""The command line of the lab."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from server_stub.node.commands import main
from server_stub.node.settings import load

__all__: list[str] = []


@pytest.fixture
def config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "node.toml"
    state = ["--state-dir", str(tmp_path / "state")]
    assert main(["init", "--config", str(path), *state, "--port", "0"]) == 0
    capsys.readouterr()
    return path


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


def test_users_are_added_listed_and_revoked(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["user", "add", "--config", str(config), "ann", "--scope", "read"]) == 0
    assert capsys.readouterr().out.startswith("goblin_")
    assert main(["user", "add", "--config", str(config), "ann"]) == 1
    assert "[user_exists]" in capsys.readouterr().err
    assert main(["user", "list", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "ann\n"
    assert main(["user", "revoke", "--config", str(config), "ann"]) == 0
    assert main(["user", "revoke", "--config", str(config), "ann"]) == 1
    capsys.readouterr()
    assert main(["user", "list", "--config", str(config)]) == 0
    assert "(revoked)" in capsys.readouterr().out


def test_doctor_names_what_has_to_be_done(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", str(config)]) == 3
    out = capsys.readouterr().out
    assert "not well  no node answers at" in out
    assert "well      state directory" in out


def test_a_wrong_configuration_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('state_dir = "/x"\ntypo = 1\n')
    assert main(["serve", "--config", str(path)]) == 1
    error = capsys.readouterr().err
    assert "typo" in error
    assert "[setting_unknown]" in error


def test_the_process_serves_and_stops_on_sigterm(config: Path, tmp_path: Path) -> None:
    from gpugoblin.wire.transport import Endpoint, Transport

    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "server_stub.node", "serve", "--config", str(config)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "listening on" in line:
                break
        client = Transport(Endpoint(f"unix:{tmp_path / 'state' / 'node.sock'}"))
        assert b'"state":"running"' in client.fetch("GET", "/v1/health", max_bytes=10_000)
        client.close()
        assert main(["doctor", "--config", str(config)]) in (0, 3)
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert not (tmp_path / "state" / "node.sock").exists()
