"""One switch that reads the real state."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.ui.autostart import Autostart, exec_line


def test_words_are_quoted_as_the_exec_key_wants_them() -> None:
    assert exec_line(["/usr/bin/python3", "-m", "a.b"]) == "/usr/bin/python3 -m a.b"
    assert exec_line(["a b", "5%"]) == '"a b" 5%%'
    assert exec_line(['say "$x"']) == r'"say \\"\\$x\\""'


def test_on_and_off(tmp_path: Path) -> None:
    switch = Autostart("gpugoblin app --background", tmp_path / "autostart")
    assert not switch.is_on()
    switch.set(True)
    assert switch.is_on()
    assert "Exec=gpugoblin app --background" in switch.path.read_text()
    switch.set(False)
    assert not switch.is_on()
    switch.set(False)


@pytest.mark.parametrize(
    "line", ["Hidden=true", "X-GNOME-Autostart-enabled=false", "hidden = True"]
)
def test_what_others_changed_is_seen(tmp_path: Path, line: str) -> None:
    switch = Autostart("x", tmp_path)
    switch.set(True)
    text = switch.path.read_text().replace("X-GNOME-Autostart-enabled=true\n", "")
    switch.path.write_text(f"{text}{line}\n")
    assert not switch.is_on()


def test_the_place_follows_the_desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert Autostart("x").path == tmp_path / "autostart" / "org.gpugoblin.App.desktop"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "autostart").write_text("a file")
    with pytest.raises(OSError, match=r"exists|directory"):
        Autostart("x", tmp_path / "autostart").set(True)
