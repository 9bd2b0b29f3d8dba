"""Settings: one table, one file, clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.agent.settings import SETTINGS, read_settings, settings_path
from gpugoblin.errors import GoblinError, SettingsError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    return path


def test_every_default_is_a_value_of_its_setting() -> None:
    values = read_settings(None).values
    assert {setting.name: setting.default for setting in SETTINGS} == values
    for setting in SETTINGS:
        assert setting.description.endswith(".")


def test_tables_of_the_file_are_dotted_names(tmp_path: Path) -> None:
    path = write(tmp_path, '[coordinator]\naddress = "https://c:1"\n[processor]\nthreads = 3\n')
    settings = read_settings(path)
    assert settings.text("coordinator.address") == "https://c:1"
    assert settings.number("processor.threads") == 3
    assert settings.flag("processor.lend")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("threads = 1", "setting_unknown"),
        ("[processor]\nthreads = -1", "setting_invalid"),
        ("[processor]\nthreads = true", "setting_invalid"),
        ('[processor]\nthreads = "2"', "setting_invalid"),
        ("[processor]\nlend = 1", "setting_invalid"),
        ("[processor]\nmemory_bytes = 1", "setting_invalid"),
        ('[sandbox]\nlevel = "none"', "setting_invalid"),
        ("[coordinator]\naddress = 5", "setting_invalid"),
        (f'[coordinator]\naddress = "{"a" * 5000}"', "setting_invalid"),
        ("[processor", "settings_unreadable"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(write(tmp_path, text))
    assert caught.value.code == code


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        read_settings(tmp_path / "nowhere.toml")


def test_only_live_settings_change_while_the_agent_runs() -> None:
    settings = read_settings(None)
    assert settings.changed({"queue.prefetch": 5}).number("queue.prefetch") == 5
    for changes, code in (
        ({"processor.threads": 2}, "setting_fixed"),
        ({"nothing": 2}, "setting_unknown"),
        ({"queue.prefetch": -2}, "setting_invalid"),
    ):
        with pytest.raises(GoblinError) as caught:
            settings.changed(changes)
        assert caught.value.code == code


def test_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("XDG_STATE_HOME", "/home/x/.state")
    monkeypatch.setattr("os.geteuid", lambda: 7)
    settings = read_settings(None)
    assert settings.state_directory == Path("/home/x/.state/gpugoblin/agent")
    assert settings.control_directory == Path("/run/user/7/gpugoblin")
    chosen = read_settings(write(tmp_path, f'state_directory = "{tmp_path}/s"'))
    assert chosen.control_directory == tmp_path / "s" / "control"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert settings.state_directory == Path("/var/lib/gpugoblin/agent")


def test_the_owner_names_a_coordinator_only_where_the_file_names_none(tmp_path: Path) -> None:
    mine = {"coordinator.address": "https://mine:1"}
    assert read_settings(None).changed(mine).text("coordinator.address") == "https://mine:1"
    assert read_settings(None).with_owners(mine).text("coordinator.address") == "https://mine:1"
    pinned = read_settings(write(tmp_path, '[coordinator]\naddress = "https://theirs:1"\n'))
    with pytest.raises(GoblinError) as caught:
        pinned.changed(mine)
    assert caught.value.code == "setting_fixed"
    kept = pinned.with_owners({**mine, "queue.prefetch": 7})
    assert kept.text("coordinator.address") == "https://theirs:1"
    assert kept.number("queue.prefetch") == 7


def test_a_file_that_changes_names_the_coordinator_until_the_device_is_enrolled(
    tmp_path: Path,
) -> None:
    old = read_settings(None)
    found = read_settings(
        write(tmp_path, 'profile = "nights"\n[coordinator]\naddress = "https://theirs:1"\n')
    )
    kept = {"coordinator.address": "https://mine:1"}
    joined = old.followed(found, {}, is_joined=True)
    assert (joined.text("coordinator.address"), joined.text("profile")) == ("", "nights")
    free = old.followed(found, kept, is_joined=False)
    assert (free.text("coordinator.address"), free.is_pinned) == ("https://theirs:1", True)


def test_a_fingerprint_has_64_digits() -> None:
    for text in ("a" * 63, "g" * 64):
        with pytest.raises(SettingsError, match="64"):
            read_settings(None).changed({"coordinator.certificate_sha256": text})
    for text in ("", "Ab" * 32, ":".join(["0f"] * 32)):
        read_settings(None).changed({"coordinator.certificate_sha256": text})


def test_the_file_in_its_usual_place_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 7)
    usual = tmp_path / "gpugoblin" / "agent.toml"
    assert settings_path(None) is None
    usual.parent.mkdir()
    usual.write_text("")
    assert settings_path(None) == usual
    assert settings_path(tmp_path / "other") == tmp_path / "other"
