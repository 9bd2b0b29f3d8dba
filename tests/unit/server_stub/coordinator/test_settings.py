"""Settings: declared, bounded, read from TOML."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from gpugoblin.errors import SettingsError
from server_stub.coordinator.settings import SETTINGS, Settings, load_settings, settings_toml


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_and_paths(tmp_path: Path) -> None:
    found = load_settings(write(tmp_path / "c.toml", 'state_dir = "state"\nport = 0\n'))
    assert found.state_dir == tmp_path / "state"
    assert found.port == 0
    for setting in SETTINGS:
        if setting.name not in ("state_dir", "port"):
            assert getattr(found, setting.name) == setting.default, setting.name


def test_every_setting_is_described_and_bounded() -> None:
    assert [field.name for field in dataclasses.fields(Settings)] == [s.name for s in SETTINGS]
    for setting in SETTINGS:
        assert setting.description.endswith(".")
        if setting.kind in ("int", "float"):
            assert setting.minimum is not None
        if setting.name.endswith("_s") and not setting.name.endswith("_per_s"):
            assert setting.unit == "s"


def test_the_written_file_reads_as_written(tmp_path: Path) -> None:
    text = settings_toml(state_dir='a "quoted" \\ place', hostnames=("x", "y"), grant_s=60)
    found = load_settings(write(tmp_path / "c.toml", text))
    assert found.state_dir.name == 'a "quoted" \\ place'
    assert (found.hostnames, found.grant_s) == (("x", "y"), 60)
    uncommented = "\n".join(
        line.removeprefix("# ") for line in text.splitlines() if re.match(r"(# )?\w+ = ", line)
    )
    assert set(tomllib.loads(uncommented)) == {setting.name for setting in SETTINGS}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nonsense = 1", "setting_unknown"),
        ("port = 70000", "setting_invalid"),
        ('port = "8"', "setting_invalid"),
        ("port = 8.5", "setting_invalid"),
        ("port = true", "setting_invalid"),
        ("host = 5", "setting_invalid"),
        ('tls = "maybe"', "setting_invalid"),
        ('tls = "files"', "setting_invalid"),
        ("contact_s = nan", "setting_invalid"),
        ("contact_s = inf", "setting_invalid"),
        ("grant_s = 3601", "setting_invalid"),
        ('hostnames = "localhost"', "setting_invalid"),
        ("hostnames = [1]", "setting_invalid"),
        ('sandbox_levels = ["some"]', "setting_invalid"),
        ("port = ", "settings_unreadable"),
        ("[coordinator]\nport = 1", "setting_unknown"),
    ],
)
def test_wrong_files(tmp_path: Path, line: str, code: str) -> None:
    path = write(tmp_path / "c.toml", f'state_dir = "state"\n{line}\n')
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert caught.value.code == code


@pytest.mark.parametrize("text", ["", "state_dir = ''", "state_dir = 5"])
def test_the_state_directory_is_required(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="state_dir"):
        load_settings(write(tmp_path / "c.toml", text))


def test_unreadable_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(SettingsError) as caught:
            load_settings(path)
        assert caught.value.code == "settings_unreadable"
    (tmp_path / "latin").write_bytes(b"state_dir = '\xff'")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path / "latin")
    assert caught.value.code == "settings_unreadable"
