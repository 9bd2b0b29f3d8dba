"""The lab node's settings: the table, what follows from it, and a new file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpugoblin.errors import SettingsError
from server_stub.node.settings import SETTINGS, load, parse, template


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_and_the_paths_that_follow(tmp_path: Path) -> None:
    settings = load(write(tmp_path, 'state_dir = "state"\n'))
    assert settings.state == tmp_path / "state"
    assert settings.socket_path == tmp_path / "state" / "node.sock"
    assert settings.database.parent == settings.blob_root.parent == settings.state
    assert settings.arrays_root == tmp_path / "state" / "arrays"
    assert settings.engine_threads == len(os.sched_getaffinity(0))
    assert settings.confirmed_no_confidential_data is False
    for setting in SETTINGS:
        assert setting.description.endswith("."), setting.name
        if setting.name not in ("state_dir", "engine_threads"):
            assert getattr(settings, setting.name) == setting.default, setting.name


def test_what_the_file_says_holds(tmp_path: Path) -> None:
    text = f'state_dir = "{tmp_path}"\nsocket = "s.sock"\nengine_threads = 3\ndevice_hold_s = 4\n'
    settings = load(write(tmp_path, text))
    assert settings.socket_path == tmp_path / "s.sock"
    assert (settings.engine_threads, settings.device_hold_s) == (3, 4.0)
    with pytest.raises(AttributeError, match="nothing"):
        _ = settings.nothing


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nonsense = 1", "setting_unknown"),
        ("listen_port = 70000", "setting_invalid"),
        ("engine_level = 'some'", "setting_invalid"),
        ("engine_memory_bytes = 1", "setting_invalid"),
        ("confirmed_no_confidential_data = 'yes'", "setting_invalid"),
        ("tls_certificate = 'a.pem'", "setting_invalid"),
        ("lab = ", "settings_unreadable"),
    ],
)
def test_wrong_files(tmp_path: Path, line: str, code: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, f'state_dir = "state"\n{line}\n'))
    assert caught.value.code == code


def test_without_a_file_the_state_directory_must_be_absolute() -> None:
    with pytest.raises(SettingsError, match="absolute"):
        parse({"state_dir": "here"})
    with pytest.raises(SettingsError, match="state_dir"):
        parse({})


def test_a_new_file_reads_as_it_was_written(tmp_path: Path) -> None:
    given = {"state_dir": str(tmp_path), "lab": "lab_1", "listen_port": 9000}
    settings = load(write(tmp_path, template(given)))
    assert (settings.lab, settings.listen_port) == ("lab_1", 9000)


def test_workers_are_started_as_the_settings_say(tmp_path: Path) -> None:
    from server_stub.node.service import pool_config

    made = parse(
        {
            "state_dir": str(tmp_path),
            "check_workers": 3,
            "validators": 2,
            "reserve_bytes": 12345,
            "engine_threads": 2,
            "local_engine": False,
        }
    )
    found = pool_config(made)
    assert (found.check_workers, found.validators, found.reserve_bytes) == (3, 2, 12345)
    assert (found.engine_threads, found.local) == (2, False)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"executor": ""}, "it must name some of grid, local, ray"),
        ({"executor": "local, slurm"}, "it must name some of grid, local, ray"),
        ({"executor": "ray"}, "`ray` needs ray_address"),
        ({"validators_on": "ray"}, "executor does not name `ray`"),
    ],
)
def test_executors_that_make_no_sense_are_refused(
    tmp_path: Path, given: dict[str, str], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason):
        parse({"state_dir": str(tmp_path), **given})


def test_who_may_compute_is_read_from_one_line(tmp_path: Path) -> None:
    usual = parse({"state_dir": str(tmp_path)})
    assert usual.executors == {"local", "grid"}
    given = {"executor": " ray ,grid", "ray_address": "h:1", "validators_on": "ray"}
    found = parse({"state_dir": str(tmp_path), **given})
    assert found.executors == {"ray", "grid"}
    assert found.local_engine is False
