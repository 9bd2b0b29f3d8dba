"""The coordinator's directory: made once, opened whole, backed up while in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpugoblin.errors import CoordinatorError, GoblinError, SettingsError, WireError
from server_stub.coordinator.settings import Settings, load_settings
from server_stub.coordinator.state import Files, initialize, open_house, tls_files


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return initialize(tmp_path / "coordinator.toml", port=0)


def test_initialize_makes_everything_once(tmp_path: Path, settings: Settings) -> None:
    assert load_settings(tmp_path / "coordinator.toml") == settings
    names = {"coordinator.sqlite3", "ticket.key", "pseudonym.key"}
    assert names <= set(os.listdir(settings.state_dir))
    for name in names:
        assert (settings.state_dir / name).stat().st_mode & 0o077 == 0
    assert open_house(settings).public_key == open_house(settings).public_key
    with pytest.raises(CoordinatorError) as caught:
        initialize(tmp_path / "coordinator.toml")
    assert caught.value.code == "coordinator_exists"


def test_wrong_choices_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        initialize(tmp_path / "coordinator.toml", port=-1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("lost", ["ticket_key", "pseudonym_key", "database"])
def test_a_lost_key_or_database_is_never_replaced(settings: Settings, lost: str) -> None:
    getattr(Files(settings.state_dir), lost).unlink()
    with pytest.raises(GoblinError) as caught:
        open_house(settings)
    assert caught.value.code in ("key_file_unreadable", "coordinator_not_set_up")
    assert not getattr(Files(settings.state_dir), lost).exists()


def test_the_keys_differ(settings: Settings) -> None:
    house = open_house(settings)
    assert house.ticket_key.private_bytes_raw() != house.pseudonym_key


def test_certificates(tmp_path: Path, settings: Settings) -> None:
    own = tls_files(settings)
    assert own is not None
    assert tls_files(settings) == own
    base = {"state_dir": str(tmp_path)}
    assert tls_files(Settings.of({**base, "tls": "off"})) is None
    files = {"tls_certificate": str(own.certificate), "tls_key": str(own.key)}
    assert tls_files(Settings.of({**base, "tls": "files", **files})) == own
    with pytest.raises(WireError) as caught:
        tls_files(Settings.of({**base, "tls": "files", "tls_certificate": "x", "tls_key": "y"}))
    assert caught.value.code == "certificate_unreadable"


def test_the_directory_of_a_lab_node_is_not_taken(tmp_path: Path, settings: Settings) -> None:
    other = tmp_path / "node"
    other.mkdir()
    (other / "node.key").touch()
    with pytest.raises(CoordinatorError) as caught:
        initialize(tmp_path / "second.toml", port=0, state_dir=str(other))
    assert caught.value.code == "coordinator_dir_shared"
    assert os.listdir(other) == ["node.key"]
    (settings.state_dir / "node.key").touch()
    with pytest.raises(CoordinatorError) as caught:
        open_house(settings)
    assert caught.value.code == "coordinator_dir_shared"
