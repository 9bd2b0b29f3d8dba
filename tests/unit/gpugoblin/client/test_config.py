"""The configuration: file, environment, and what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpugoblin.client.config import (
    SETTINGS,
    ClientConfig,
    config_path,
    default_state_dir,
    load,
)
from gpugoblin.errors import ClientError


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_nothing_configured_is_nothing() -> None:
    assert load() == ClientConfig()


def test_the_file_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "c.toml",
        'node = "https://lab:1"\ntoken = "t"\ncertificate_sha256 = "' + "AB:" * 31 + 'AB"\n'
        'ca_file = "~/x.pem"\nstate_dir = "/var/s"\nnode_key = "' + "0" * 64 + '"\n',
    )
    config = load(path)
    assert (config.node, config.token, config.certificate_sha256) == (
        "https://lab:1",
        "t",
        "ab" * 32,
    )
    assert config.ca_file == os.path.expanduser("~/x.pem")
    assert config.endpoint("https://lab:1").token == "t"


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUGOBLIN_NODE", "unix:/y")
    assert load(written(tmp_path / "c.toml", 'node = "unix:/x"')).node == "unix:/y"


def test_the_token_may_be_in_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = written(tmp_path / "token", "secret\n")
    monkeypatch.setenv("GPUGOBLIN_TOKEN_FILE", str(token))
    assert load().token == "secret"
    assert "secret" not in repr(load())
    token.chmod(0o640)
    with pytest.raises(ClientError) as caught:
        load()
    assert caught.value.code == "secret_readable"
    assert "chmod 600" in caught.value.next_step


def test_a_token_in_a_readable_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "c.toml", 'token = "secret"')
    path.chmod(0o644)
    with pytest.raises(ClientError) as caught:
        load(path)
    assert caught.value.code == "secret_readable"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("node = ", "Invalid value"), ("nodes = 'x'", "no setting 'nodes'"),
        ("node = 3", "must be text"), ("certificate_sha256 = 'zz'", "64 hexadecimal"),
        ("node_key = '12'", "64 hexadecimal"), ("token_file = '/nowhere'", "cannot be read"),
        ("#" * 70_000, "larger than"),
    ],
)  # fmt: skip
def test_a_malformed_file_names_what_is_wrong(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ClientError) as caught:
        load(written(tmp_path / "c.toml", text))
    assert caught.value.code == "config_malformed"
    assert reason in str(caught.value)
    assert "c.toml" in str(caught.value)


def test_a_directory_in_its_place_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="config_malformed"):
        load(tmp_path)


def test_a_remote_node_wants_a_token() -> None:
    with pytest.raises(ClientError) as caught:
        ClientConfig().endpoint("https://lab:1")
    assert caught.value.code == "token_missing"
    assert ClientConfig(token="t").endpoint("unix:/x").token == ""


def test_places_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GPUGOBLIN_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_path() == tmp_path / "gpugoblin" / "client.toml"
    assert default_state_dir() == tmp_path / "state" / "gpugoblin"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert config_path() == Path("/h/.config/gpugoblin/client.toml")
    assert default_state_dir() == Path("/h/.local/state/gpugoblin")


def test_every_setting_stands_in_the_documentation() -> None:
    page = Path(__file__).parents[4] / "docs" / "researcher" / "configuration.md"
    text = page.read_text()
    for setting in SETTINGS:
        assert f"| `{setting.key}` | `{setting.variable}` | {setting.meaning} |" in text
