"""The tarball for other distributions: built, unpacked, and its engine started behind its walls."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.installed import build

PYTHONS = ("python3.13", "python3.12", "python3.11")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(
        not all(shutil.which(name) for name in ("bwrap", "hardlink", "xz")),
        reason="what builds it and what it starts is not installed",
    ),
]


@pytest.fixture(scope="module")
def tarball() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gg-") as folder:
        yield build(Path(folder), "tarball")


@pytest.fixture
def unpacked(tarball: Path) -> Iterator[Path]:
    """Where another user can read it: root's engines run as one."""
    with tempfile.TemporaryDirectory(prefix="gg-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        subprocess.run(["tar", "-C", folder, "-xf", str(tarball)], check=True)
        (top,) = place.iterdir()
        yield top


@pytest.mark.skipif(
    not any(shutil.which(name) for name in PYTHONS), reason="no Python that it is for is installed"
)
def test_unpacked_it_starts_an_engine_behind_all_walls(unpacked: Path) -> None:
    home = unpacked.parent / "home"
    home.mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(home)}
    for _turn in range(2):  # the second start finds the environment that the first one made
        words = [str(unpacked / "gpugoblin"), "doctor"]
        done = subprocess.run(words, capture_output=True, text=True, env=variables, cwd=home)
        assert done.returncode == 3, (done.stdout, done.stderr)  # no coordinator is named
        assert "An engine starts, walled in at the level full." in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    written = {one.name for one in unpacked.iterdir()}
    assert {"bin", "pyvenv.cfg", "lib", "share", "systemd", "README", "LICENSE"} < written


def test_two_builds_give_the_same_bytes(tarball: Path, tmp_path: Path) -> None:
    assert build(tmp_path, "tarball").read_bytes() == tarball.read_bytes()
