"""The wheels, as pip and pipx install them: in a fresh environment, without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def wheels() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gg-"))
    build = str(ROOT / "packaging" / "build")
    subprocess.run([build, "wheel", str(folder)], check=True, stderr=subprocess.DEVNULL)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(*words: str | Path) -> str:
    """Where no compiler can be found, whatever the machine has."""
    variables = {**os.environ, "CC": "/nonexistent", "CXX": "/nonexistent"}
    done = subprocess.run(list(words), capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def environment(place: Path, wheel: Path, extra: str = "") -> Path:
    """A fresh environment with a wheel; its folder of programs."""
    run(sys.executable, "-m", "venv", place)
    constraints = ROOT / "requirements" / "constraints.txt"
    pip = (place / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    run(*pip, "-c", constraints, f"{wheel}{extra}")
    return place / "bin"


def test_the_client_needs_no_compiler(wheels: Path, tmp_path: Path) -> None:
    (pure,) = wheels.glob("*-py3-none-any.whl")
    programs = environment(tmp_path / "venv", pure)
    assert run(programs / "gpugoblin", "--version").startswith("gpugoblin ")
    words = "import gpugoblin as gg; print((gg.array([[1.0]]) @ gg.array([[2.0]])).shape)"
    assert run(programs / "python", "-I", "-c", words) == "(1, 1)\n"
    assert not list((tmp_path / "venv").rglob("_loops*"))


def test_a_contributor_gets_the_compiled_loops(wheels: Path, tmp_path: Path) -> None:
    (native,) = wheels.glob("*manylinux*.whl")
    programs = environment(tmp_path / "venv", native, "[app]")
    assert "lending" in run(programs / "gpugoblin", "doctor", "--help")
    words = "from app.engine.backends.cpu.library import LIBRARY; print(LIBRARY is not None)"
    assert run(programs / "python", "-I", "-c", words) == "True\n"
    found = subprocess.run(
        [programs / "gpugoblin", "doctor"], capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert found.returncode == 3, "no coordinator is configured"
    assert "sandbox" in found.stdout


def test_two_builds_give_the_same_bytes(wheels: Path, tmp_path: Path) -> None:
    build = str(ROOT / "packaging" / "build")
    subprocess.run([build, "wheel", str(tmp_path)], check=True, stderr=subprocess.DEVNULL)
    assert sorted(one.name for one in wheels.iterdir()) == sorted(os.listdir(tmp_path))
    for one in wheels.iterdir():
        assert one.read_bytes() == (tmp_path / one.name).read_bytes(), one.name
