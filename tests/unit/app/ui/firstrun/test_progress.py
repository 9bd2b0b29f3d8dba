"""How far the first run came, across starts and broken files."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.ui.firstrun.progress import DONE, STEPS, Progress


def test_it_goes_on_where_it_was_left(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "deep" / "first-run")
    assert progress.read() == ""
    for word in (*STEPS, DONE):
        progress.keep(word)
        assert Progress(progress.path).read() == word


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\xff\xfe", b"welcome" * 1000])
def test_a_broken_file_means_that_nothing_was_begun(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "first-run"
    path.write_bytes(data)
    assert Progress(path).read() == ""


def test_what_cannot_be_written_is_not_worth_a_word(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    progress = Progress(tmp_path / "file" / "first-run")
    progress.keep("cards")
    assert progress.read() == ""


def test_it_lies_in_the_users_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Progress().path == tmp_path / "gpugoblin" / "window" / "first-run"
