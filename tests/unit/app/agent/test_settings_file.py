"""The settings file while the agent runs: changes are seen, half of an edit is not."""

from __future__ import annotations

from pathlib import Path

from app.agent.settings_file import LOOK_PERIOD_S, SettingsFile


def test_a_change_is_seen_once_and_not_looked_for_all_the_time(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('profile = "nights"\n')
    file = SettingsFile(path)
    assert file.read().text("profile") == "nights"
    assert not file.has_changed(0.0)
    path.write_text('profile = "always"\n')
    assert not file.has_changed(LOOK_PERIOD_S / 2)
    assert file.has_changed(LOOK_PERIOD_S)
    assert file.read().text("profile") == "always"
    assert not file.has_changed(2 * LOOK_PERIOD_S)


def test_a_file_that_is_just_being_replaced_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text("")
    file = SettingsFile(path)
    file.read()
    path.unlink()
    assert not file.has_changed(0.0)
    path.write_text('profile = "always"\n')
    assert file.has_changed(LOOK_PERIOD_S)


def test_no_file_never_changes() -> None:
    file = SettingsFile(None)
    assert file.read().text("profile") == "away"
    assert not file.has_changed(100.0)
