from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from tests.helpers.packaging_script import script

JUDGE = script("wheel/judge")
GOOD = "  NEEDED               libc.so.6\n  0x09691a75 0x00 02 GLIBC_2.2.5\n"


@pytest.mark.parametrize(
    ("listed", "faults"),
    [
        (GOOD, []),
        (GOOD + "  NEEDED   libgomp.so.1\n", ["it needs libgomp.so.1"]),
        (GOOD + "  0x0 0x00 03 GLIBC_2.38\n", ["it needs glibc 2.38"]),
        (GOOD + "  0x0 0x00 03 GLIBC_2.34\n", []),
    ],
)
def test_what_a_library_may_need(listed: str, faults: list[str]) -> None:
    assert JUDGE.faults(listed) == faults


def test_a_wheel_without_loops_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("a.py", "")
    assert JUDGE.judge(tmp_path / "a.whl") == ["no loops are in it: is there a C compiler?"]


@pytest.mark.skipif(shutil.which("objdump") is None, reason="binutils is not installed")
def test_the_loops_of_this_checkout_are_fit_for_others(tmp_path: Path) -> None:
    from app.engine.backends.cpu import library

    loops = Path(library.__file__).with_name(library.NAME)
    if not loops.exists():
        pytest.skip("nothing was compiled here")
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.write(loops, "loops.so")
    assert JUDGE.judge(tmp_path / "a.whl") == []
