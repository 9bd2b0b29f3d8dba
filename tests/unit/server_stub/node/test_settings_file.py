"""Settings are changed in a file; the rest of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugoblin.errors import SettingsError
from server_stub.node.settings import load, template
from server_stub.node.settings_file import filled, rewrite

__all__: list[str] = []


def test_a_setting_is_put_into_its_line_its_comment_or_the_end() -> None:
    text = '# lab = "" is empty\nstate_dir = "/a"\n# lab = ""\nmine = 1 # words\n'
    new = filled(text, {"state_dir": '/b\\1"', "lab": "lab_x", "listen_port": 7})
    assert new == (
        'lab = "lab_x"\nstate_dir = "/b\\\\1\\""\n# lab = ""\nmine = 1 # words\n\nlisten_port = 7\n'
    )


def test_a_template_is_filled_and_keeps_its_words(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(template({"state_dir": "/srv/a"}))
    lines = len(path.read_text().splitlines())
    changed = rewrite(path, {"lab": "lab_abc", "listen_port": 8441, "socket_files": True})
    assert (changed.lab, changed.listen_port, changed.socket_files) == ("lab_abc", 8441, True)
    assert load(path).values == changed.values
    assert len(path.read_text().splitlines()) == lines
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["node.toml"]


def test_a_value_that_cannot_be_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(template({"state_dir": "/srv/a"}))
    before = path.read_text()
    with pytest.raises(SettingsError):
        rewrite(path, {"listen_port": 70_000})
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["node.toml"]
