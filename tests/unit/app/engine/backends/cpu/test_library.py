from __future__ import annotations

from pathlib import Path

from app.engine.backends.cpu.library import LIBRARY, NAME, library
from app.engine.backends.cpu.rows import ROWS
from app.engine.backends.cpu.shifted import SHIFTED


def test_where_nothing_was_compiled_there_is_no_library(tmp_path: Path) -> None:
    assert library(tmp_path) is None
    (tmp_path / NAME).write_bytes(b"no library")
    assert library(tmp_path) is None


def test_all_loops_are_there_or_none() -> None:
    assert (LIBRARY is None) == (ROWS is None) == (SHIFTED is None)
