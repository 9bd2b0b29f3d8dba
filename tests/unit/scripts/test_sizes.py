"""No module of the house is too long."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "sizes.py"


def sizes(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )


def test_every_module_is_short_enough() -> None:
    result = sizes(SCRIPT)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize(("lines", "status"), [(600, 0), (601, 1)])
def test_a_long_module_is_named(tmp_path: Path, lines: int, status: int) -> None:
    script = tmp_path / "scripts" / "sizes.py"
    script.parent.mkdir()
    script.write_text(SCRIPT.read_text())
    (tmp_path / "long.py").write_text("a = 1\n" * lines)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    result = sizes(script)
    assert result.returncode == status
    assert ("long.py has 601 lines" in result.stdout) == bool(status)


def test_exceptions_name_modules_that_are_there_and_long() -> None:
    found = runpy.run_path(str(SCRIPT))
    for name, reason in found["LONGER"].items():
        assert len((ROOT / name).read_text().splitlines()) > found["LIMIT"], name
        assert reason
