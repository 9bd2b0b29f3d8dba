"""Launches that must be refused, each with its own cause, and what every launch must not leak."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.sandbox import launch as module
from app.sandbox.cgroups import Scope
from app.sandbox.identity import Drop
from app.sandbox.launch import WALLS, Walls, installed_bwrap
from app.sandbox.runtime import stage_files
from app.sandbox.spec import Runtime
from gpugoblin.errors import SandboxError

from .conftest import SELF_TEST, Faker, launched


def test_the_packages_own_bubblewrap_goes_before_the_systems(tmp_path: Path) -> None:
    own, systems = tmp_path / "own", tmp_path / "systems"
    assert installed_bwrap((own, systems)) == systems
    systems.touch()
    assert installed_bwrap((own, systems)) == systems
    own.touch()
    assert installed_bwrap((own, systems)) == own


def _refusal(runtime: Runtime, walls: Walls) -> SandboxError:
    with pytest.raises(SandboxError) as refusal, launched(runtime, walls):
        raise AssertionError("it started")
    return refusal.value


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (
            "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1",
            "namespaces_denied_by_apparmor",
        ),
        ("echo 'No permissions to create new namespace' >&2; exit 1", "namespaces_forbidden"),
        ("echo 'nesting depth (ENOSPC)' >&2; exit 1", "namespaces_nested_too_deep"),
        ('echo "Can\'t mount proc on /newroot/proc" >&2; exit 1', "proc_masked"),
        ("echo 'prctl(PR_SET_SECCOMP) EINVAL' >&2; exit 1", "seccomp_missing"),
        ("echo 'Unknown option --disable-userns' >&2; exit 1", "bwrap_too_old"),
        ("exit 3", "sandbox_start_failed"),
        ("exec true", "sandbox_start_failed"),
    ],
)
def test_the_cause_is_named(runtime: Runtime, fake_bwrap: Faker, lines: str, code: str) -> None:
    assert _refusal(runtime, fake_bwrap(lines)).code == code


def test_one_that_names_a_child_and_goes_is_refused(runtime: Runtime, fake_bwrap: Faker) -> None:
    lines = """
    while [ "$1" != --json-status-fd ]; do shift; done
    echo '{"child-pid": 4194304}' > /proc/self/fd/$2
    echo 'it went' >&2; exit 5"""
    refusal = _refusal(runtime, fake_bwrap(lines))
    assert refusal.code == "sandbox_start_failed"
    assert refusal.fields["status"] == 5


@pytest.mark.parametrize("said", ["hello}", '{"other": 1}'])
def test_one_that_talks_nonsense_is_refused(runtime: Runtime, fake_bwrap: Faker, said: str) -> None:
    lines = f"""
    while [ "$1" != --json-status-fd ]; do shift; done
    echo '{said}' > /proc/self/fd/$2; exit 6"""
    assert _refusal(runtime, fake_bwrap(lines)).code == "sandbox_start_failed"


def test_one_that_never_starts_is_ended(
    runtime: Runtime, fake_bwrap: Faker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_LIMIT_S", 0.1)
    monkeypatch.setattr(module, "STOP_S", 0.1)
    assert _refusal(runtime, fake_bwrap("exec sleep 60")).code == "sandbox_start_slow"


def test_a_missing_program_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    assert _refusal(runtime, Walls(bwrap=tmp_path / "none")).code == "bwrap_missing"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops")
def test_a_closed_runtime_is_refused(tmp_path: Path, runtime: Runtime) -> None:
    inside = replace(runtime, root=tmp_path, python=tmp_path / "python", app=tmp_path)
    (tmp_path / "python").touch()
    tmp_path.chmod(0o700)
    refusal = _refusal(inside, SELF_TEST)
    assert refusal.code == "runtime_unreadable"
    assert "chmod o+x" in refusal.next_step


def test_a_user_that_cannot_be_become_is_refused(runtime: Runtime) -> None:
    def impossible(euid: int) -> Drop | None:
        raise SandboxError("drop_impossible", reason=str(euid))

    assert _refusal(runtime, replace(SELF_TEST, drop=impossible)).code == "drop_impossible"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops")
def test_root_never_runs_bubblewrap_as_root(runtime: Runtime) -> None:
    with launched(runtime) as (process, channel):
        channel.recv(4096)
        for pid in (process.pids.top, process.pids.first, process.pids.engine):
            status = Path(f"/proc/{pid}/status").read_text()
            assert "Uid:\t0" not in status
            assert "\nGroups:\t \n" in status


def test_nothing_of_our_environment_or_descriptors_goes_along(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GG_BAIT_TOKEN", "bait")
    secret = tmp_path / "secret"
    secret.touch()
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)
        with launched(runtime) as (process, channel):
            channel.recv(4096)
            for pid in (process.pids.top, process.pids.first, process.pids.engine):
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                assert b"GG_BAIT" not in environment
                held = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
                assert str(secret) not in held
            assert Path(f"/proc/{process.pids.top}/environ").read_bytes() == b""


def test_an_engine_outlives_the_thread_that_asked_for_it(runtime: Runtime) -> None:
    """bubblewrap dies with the thread that forked it, so no other thread may fork it."""
    kept: list[object] = []

    def ask() -> None:
        context = launched(runtime)
        kept.extend((context, *context.__enter__()))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    context, process, channel = kept
    assert isinstance(channel, socket.socket)
    channel.recv(4096)
    time.sleep(0.05)
    try:
        assert process.wait(0.0) is None  # type: ignore[attr-defined]
    finally:
        context.__exit__(None, None, None)  # type: ignore[attr-defined]


def test_engines_volunteer_when_memory_runs_out_and_are_nice(runtime: Runtime) -> None:
    with launched(runtime) as (process, channel):
        channel.recv(4096)
        assert Path(f"/proc/{process.engine_pid}/oom_score_adj").read_text() == "800\n"
        assert os.getpriority(os.PRIO_PROCESS, process.engine_pid) >= 10


def test_a_runtime_in_use_is_not_removed(runtime: Runtime, open_home: Path) -> None:
    with launched(runtime) as (_, channel):
        channel.recv(4096)
        old_s = time.time() - 10**6
        os.utime(runtime.root, (old_s, old_s))
        from app.sandbox.runtime import _remove_if_idle

        _remove_if_idle(runtime.root, time.time())
        assert runtime.python.exists()
    assert stage_files(open_home / "runtime") == runtime


@pytest.mark.skipif(os.geteuid() == 0, reason="root has no session of its own to ask")
def test_a_session_whose_manager_fails_goes_on_without(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def failing(uid: int, memory_bytes: int) -> Scope:
        asked.append(memory_bytes)
        return Scope(("/bin/false",))

    monkeypatch.setattr(module.cgroups, "user_scope", failing)
    with launched(runtime) as (process, channel):
        assert channel.recv(4096)
        assert process.attest().cgroup is False
    assert len(asked) == 1


def test_the_shipped_entry_is_the_engine() -> None:
    assert WALLS.entry == "app/engine/child.py"
    assert WALLS.bwrap.is_absolute()
