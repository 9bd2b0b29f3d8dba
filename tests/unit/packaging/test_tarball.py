"""The tarball's command finds a Python, makes its environment once, and runs isolated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.packaging_script import PACKAGING

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def unpacked(folder: Path, version: str) -> Path:
    package = folder / "lib" / f"python{version}" / "site-packages" / "gpugoblin"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text("import sys\nprint(sys.argv[1:], sys.flags.isolated)\n")
    return Path(shutil.copy(PACKAGING / "tarball" / "gpugoblin", folder / "gpugoblin"))


def run(command: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{programs}:{os.defpath}", "PYTHONPATH": "/nonexistent"}
    return subprocess.run([command, "why", "x y"], capture_output=True, text=True, env=environment)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / f"python{VERSION}").symlink_to(os.path.realpath(sys.executable))
    return folder


def test_it_runs_with_a_python_that_is_there(tmp_path: Path, programs: Path) -> None:
    command = unpacked(tmp_path / "a b", VERSION)
    for _turn in range(2):
        done = run(command, programs)
        assert (done.stdout, done.stderr) == ("['why', 'x y'] 1\n", "")
    link = tmp_path / "link"
    link.symlink_to(command)
    assert run(link, programs).stdout == "['why', 'x y'] 1\n"


def shim(path: Path, words: str) -> None:
    path.write_text(f"#!/bin/sh\n{words}\n")
    path.chmod(0o755)


def test_programs_that_look_for_a_python_are_seen_through(tmp_path: Path) -> None:
    """Those of pyenv stand in the path for every version, whether it is there or not."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for version in ("3.13", "3.12", "3.11"):
        shim(programs / f"python{version}", "exit 127")
    shim(programs / f"python{VERSION}", f'exec "{sys.executable}" "$@"')
    command = unpacked(tmp_path / "a", VERSION)
    done = run(command, programs)
    assert (done.stdout, done.stderr) == ("['why', 'x y'] 1\n", "")
    chosen = os.path.realpath(command.parent / "bin" / "python")
    assert chosen == os.path.realpath(sys.executable)


def test_a_python_that_was_removed_is_replaced(tmp_path: Path, programs: Path) -> None:
    command = unpacked(tmp_path / "a", VERSION)
    link = command.parent / "bin" / "python"
    link.parent.mkdir()
    link.symlink_to("/nonexistent/python")
    assert run(command, programs).stdout == "['why', 'x y'] 1\n"


def test_without_one_it_says_what_is_missing(tmp_path: Path, programs: Path) -> None:
    command = unpacked(tmp_path / "a", "3.1")
    done = run(command, programs)
    assert done.returncode == 1
    assert "no Python 3.11, 3.12 or 3.13 is installed" in done.stderr
