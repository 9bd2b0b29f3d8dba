"""Runtimes: made, found, shared, held, removed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from app.sandbox import runtime as module
from app.sandbox.identity import Drop, first_closed_part
from app.sandbox.runtime import hold, stage, stage_files
from app.sandbox.runtime_files import PYTHON, SourceFile
from app.sandbox.spec import Runtime
from gpugoblin.errors import SandboxError


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny installation instead of this one: staging it takes milliseconds."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "python").write_bytes(b"interpreter")
    (sources / "engine.py").write_bytes(b"ANSWER = 42\n")
    (sources / "broken.py").write_bytes(b"def (:\n")
    (sources / "lib.so.1").write_bytes(b"library")
    monkeypatch.setattr(
        module,
        "chosen_files",
        lambda: [
            SourceFile(f"bin/{PYTHON}", sources / "python", executable=True),
            SourceFile("app/engine.py", sources / "engine.py"),
            SourceFile("app/broken.py", sources / "broken.py"),
        ],
    )
    monkeypatch.setattr(
        module,
        "system_libraries",
        lambda files: [SourceFile("system/lib.so.1", sources / "lib.so.1")],
    )
    return sources


def _change(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def _age(root: Path) -> None:
    old_s = time.time() - 2 * module.KEPT_S
    os.utime(root, (old_s, old_s))


def test_a_runtime_has_all_files_and_is_named_by_its_content(few: Path, tmp_path: Path) -> None:
    staged = stage_files(tmp_path / "home")
    assert staged.python.read_bytes() == b"interpreter"
    assert (staged.app / "engine.py").read_bytes() == b"ANSWER = 42\n"
    assert (staged.root / "system/lib.so.1").read_bytes() == b"library"
    assert len(list((staged.app / "__pycache__").iterdir())) == 1
    assert staged.root.name in staged.build.replace("cpu-0.1.0-", "rt-") + staged.root.name[19:]
    again = stage_files(tmp_path / "elsewhere")
    assert again.root.name == staged.root.name


def test_nobody_else_can_write_and_everybody_can_read(few: Path, tmp_path: Path) -> None:
    staged = stage_files(tmp_path / "home")
    for path in (staged.root, *staged.root.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o755 if path.is_dir() or path == staged.python else 0o644), path
        assert path.stat().st_uid == os.geteuid()


def test_it_is_found_again_without_building(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stage_files(tmp_path / "home")
    monkeypatch.setattr(module, "_fill", lambda *_: pytest.fail("built again"))
    assert stage_files(tmp_path / "home") == first


def test_changed_sources_make_another_that_shares_what_is_the_same(
    few: Path, tmp_path: Path
) -> None:
    first = stage_files(tmp_path / "home")
    _change(few / "engine.py", b"ANSWER = 43\n")
    second = stage_files(tmp_path / "home")
    assert second.root != first.root
    assert second.python.stat().st_ino == first.python.stat().st_ino
    assert (first.app / "engine.py").read_bytes() == b"ANSWER = 42\n"
    assert (second.app / "engine.py").read_bytes() == b"ANSWER = 43\n"


def test_a_file_that_two_ways_lead_to_is_there_once(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = module.chosen_files
    monkeypatch.setattr(module, "chosen_files", lambda: [*chosen(), *chosen()])
    stage_files(tmp_path / "home")
    _change(few / "engine.py", b"ANSWER = 43\n")
    # What did not change is linked from the first one: a second link would be refused.
    second = stage_files(tmp_path / "home")
    assert (second.app / "engine.py").read_bytes() == b"ANSWER = 43\n"


def test_sources_touched_but_not_changed_give_the_same(few: Path, tmp_path: Path) -> None:
    first = stage_files(tmp_path / "home")
    _change(few / "engine.py", b"ANSWER = 42\n")
    assert stage_files(tmp_path / "home") == first


def test_upgraded_libraries_of_the_system_make_another(few: Path, tmp_path: Path) -> None:
    first = stage_files(tmp_path / "home")
    _change(few / "lib.so.1", b"upgraded")
    second = stage_files(tmp_path / "home")
    assert (second.root / "system/lib.so.1").read_bytes() == b"upgraded"
    assert second.root != first.root
    (few / "lib.so.1").unlink()
    with pytest.raises(SandboxError, match=r"runtime_unwritable"):
        stage_files(tmp_path / "home")


def test_a_runtime_cut_short_by_a_power_loss_is_built_again(few: Path, tmp_path: Path) -> None:
    first = stage_files(tmp_path / "home")
    first.python.write_bytes(b"")
    second = stage_files(tmp_path / "home2")
    assert second.python.read_bytes() == b"interpreter"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"a": 5}', b'{"a": [1]}'])
def test_a_damaged_index_is_not_believed(few: Path, tmp_path: Path, damage: bytes) -> None:
    first = stage_files(tmp_path / "home")
    index = tmp_path / "home/index" / f"{first.root.name}.json"
    index.write_bytes(damage)
    assert stage_files(tmp_path / "home") == first
    assert json.loads(index.read_bytes())


def test_old_ones_are_removed_unless_somebody_holds_them(few: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    held = stage_files(home)
    lock = hold(held)
    _change(few / "engine.py", b"ANSWER = 43\n")
    idle = stage_files(home)
    _change(few / "engine.py", b"ANSWER = 44\n")
    recent = stage_files(home)
    (home / ".staging-dead").mkdir()
    for path in (held.root, idle.root, home / ".staging-dead"):
        _age(path)
    _change(few / "engine.py", b"ANSWER = 45\n")
    newest = stage_files(home)
    left = {path for path in home.iterdir() if path.name != "index"}
    assert left == {held.root, recent.root, newest.root}
    assert (newest.app / "engine.py").read_bytes() == b"ANSWER = 45\n"
    os.close(lock)
    with pytest.raises(FileNotFoundError):
        hold(idle)


def test_asking_for_it_keeps_it(few: Path, tmp_path: Path) -> None:
    first = stage_files(tmp_path / "home")
    _age(first.root)
    stage_files(tmp_path / "home")
    assert time.time() - first.root.stat().st_mtime < 60


def test_a_home_that_cannot_be_written_is_refused(few: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxError, match="runtime_unwritable"):
        stage_files(tmp_path / "file" / "home")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_home_of_somebody_else_is_refused(few: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 12345, 12345)
    with pytest.raises(SandboxError, match="somebody else"):
        stage_files(tmp_path / "home")


def test_root_stages_where_the_engines_user_can_read(
    few: Path, tmp_path: Path, open_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARED_HOME", tmp_path / "shared")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert module._home(closed / "state") == tmp_path / "shared/runtime"
    assert module._home(open_home / "not-yet") == (open_home / "not-yet/runtime").resolve()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert module._home(closed / "state") == closed / "state/runtime"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root stages for another user")
def test_a_strict_umask_does_not_close_the_way(few: Path, open_home: Path) -> None:
    before = os.umask(0o077)
    try:
        staged = stage(open_home / "strict/state")
    finally:
        os.umask(before)
    assert first_closed_part(staged.python, Drop(12345, 12345)) is None
    assert first_closed_part(staged.app / "engine.py", Drop(12345, 12345)) is None


def test_the_state_directory_holds_it(few: Path, open_home: Path) -> None:
    staged = stage(open_home / "state")
    assert staged.root.parent == (open_home / "state/runtime").resolve()


def test_the_real_one_runs_without_this_installation(runtime: Runtime) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import numpy, msgspec, blake3, ctypes;"
        "print(numpy.ones(3).sum(), sys.prefix, 'socket' in sys.modules)"
    )
    done = subprocess.run(
        [str(runtime.python), "-I", "-S", "-B", "-c", code, str(runtime.app)],
        env={"LD_LIBRARY_PATH": str(runtime.root / "lib")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"3.0 {runtime.root} False\n"
