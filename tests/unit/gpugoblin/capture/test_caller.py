"""Whose line an error names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import gpugoblin as gg
from gpugoblin.capture.caller import NOWHERE, Place, caller
from gpugoblin.errors import CaptureError


def test_the_place_is_outside_the_package() -> None:
    place = caller()
    assert place.file == __file__
    assert str(place).endswith('"place = caller()"')


def test_the_line_of_the_operation_is_named_not_that_of_a_helper_inside() -> None:
    x = gg.array([1, 2, 3])
    with pytest.raises(CaptureError) as caught:
        gg.softmax(x)
    assert 'test_caller.py:24 "gg.softmax(x)"' in str(caught.value)


def test_a_file_below_the_working_directory_is_shown_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Place(str(tmp_path / "a.py"), 3).short == "a.py:3"
    assert Place(f"{os.sep}elsewhere{os.sep}b.py", 3).short == f"{os.sep}elsewhere{os.sep}b.py:3"


def test_a_notebook_cell_is_shown_as_one() -> None:
    assert Place("/tmp/ipykernel_12/34.py", 3).short == "cell line 3"
    assert Place("<stdin>", 1).short == "cell line 1"


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("x = " + "1 + " * 100 + "1\n")
    assert len(str(Place(str(file), 1))) < len(Place(str(file), 1).short) + 90


def test_nowhere_is_said() -> None:
    assert str(NOWHERE) == "<unknown>"
