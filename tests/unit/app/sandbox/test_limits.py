"""Limits: their words, and how a wrong one is seen."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from app.sandbox import limits
from gpugoblin.units import MIB


def _limits_of_child(memory_bytes: int) -> str:
    done = subprocess.run(
        [*limits.prefix(memory_bytes, dedicated_user=False), "cat", "/proc/self/limits"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_command_behind_the_prefix_has_the_limits() -> None:
    table = _limits_of_child(300 * MIB)
    assert limits.wrong_limits(table, 300 * MIB) == []


def test_a_limit_that_is_too_high_or_missing_is_named() -> None:
    table = _limits_of_child(300 * MIB)
    assert limits.wrong_limits(table, 200 * MIB) == [
        f"Max data size is {300 * MIB}, not {200 * MIB}"
    ]
    without = "\n".join(line for line in table.splitlines() if "core" not in line)
    assert limits.wrong_limits(without, 300 * MIB) == ["Max core file size is missing, not 0"]
    unlimited = table.replace(str(300 * MIB), "unlimited")
    assert "Max data size is unlimited" in limits.wrong_limits(unlimited, 300 * MIB)[0]


def test_never_asks_for_more_than_this_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4, 5))
    words = limits.prefix(300 * MIB, dedicated_user=False)
    assert "--data=5:5" in words
    assert "--core=0:0" in words


def test_tasks_are_limited_for_a_user_that_has_nothing_but_engines() -> None:
    assert f"--nproc={limits.USER_TASKS}:{limits.USER_TASKS}" in limits.prefix(MIB, True)
    assert not [word for word in limits.prefix(MIB, False) if "nproc" in word]


def test_a_process_volunteers_and_gets_a_limit_of_tasks() -> None:
    child = subprocess.Popen(["/bin/sleep", "60"])
    try:
        limits.volunteer_for_oom(child.pid)
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text() == f"{limits.OOM_SCORE}\n"
        assert limits.limit_tasks(child.pid) is True
        soft_hard = resource.prlimit(child.pid, resource.RLIMIT_NPROC)
        assert soft_hard == (limits.ENGINE_TASKS, limits.ENGINE_TASKS)
    finally:
        child.kill()
        child.wait()
    with pytest.raises(ProcessLookupError):
        limits.volunteer_for_oom(child.pid)
    with pytest.raises(ProcessLookupError):
        limits.limit_tasks(child.pid)


def test_a_foreign_process_keeps_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "prlimit", forbidden)
    assert limits.limit_tasks(os.getpid()) is False
