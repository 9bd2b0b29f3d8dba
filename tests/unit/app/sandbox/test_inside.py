"""The inner walls where something is missing. That they stand is the attack suite's business."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _last_line(code: str, **environment: str) -> str:
    """How a process ends that runs `code`; the error's code stands at the end."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip().rpartition("\n")[2]


LACKING = """
import sys
from app.sandbox import inside
from app.sandbox.seccomp import *
from app.sandbox.syscalls import NUMBERS
gone = {*sys.argv[1:], GONE}
load(compile_policy(Policy(frozenset(NUMBERS) - gone, {}, frozenset(), errno_action(38))))
inside.enter_first()
"""
FULL = {"GPUGOBLIN_RUNTIME": "/usr"}


def test_a_kernel_without_landlock_is_refused() -> None:
    code = LACKING.replace("GONE", "'landlock_create_ruleset'")
    assert _last_line(code, **FULL).endswith("[landlock_missing]")


def test_a_landlock_that_refuses_is_reported() -> None:
    code = LACKING.replace("GONE", "'landlock_restrict_self'")
    said = _last_line(code, **FULL)
    assert said.endswith("[walls_incomplete]")
    assert "landlock_restrict_self: Function not implemented" in said


def test_the_runtime_must_be_named() -> None:
    assert "GPUGOBLIN_RUNTIME" in _last_line("from app.sandbox.inside import *; enter_first()")


OLD = """
from app.sandbox import inside, landlock
landlock.abi = lambda: 3
inside.enter_first()
"""


def test_reduced_level_needs_a_landlock_that_closes_the_network() -> None:
    said = _last_line(OLD, GPUGOBLIN_LEVEL="reduced", **FULL)
    assert said.endswith("[landlock_too_old]")
    assert "ABI 3; the level reduced needs 4" in said


def test_a_kernel_without_seccomp_is_reported() -> None:
    code = LACKING.replace("GONE", "'seccomp'").replace("enter_first", "enter_last")
    assert _last_line(code).endswith("[walls_incomplete]")


def test_self_test_fails_where_only_one_wall_stands() -> None:
    """The second filter alone: a file of the host still opens."""
    said = _last_line("from app.sandbox.inside import *; enter_last()")
    assert said.endswith("[self_test_failed]")
    assert "read /etc/passwd (it went through)" in said


HOLES = """
import errno
from app.sandbox import inside
from app.sandbox.seccomp import *
from app.sandbox.syscalls import NUMBERS
refusing = {"openat", "fork", "clone", "execve", "connect", "socket", "clone3"} - {HOLE}
def weak(pid, policy):
    return Policy(frozenset(NUMBERS) - refusing, {}, frozenset(), errno_action(1))
inside.stage_two = weak
inside._TESTS = tuple(t for t in inside._TESTS if t[0] == ACTION)
inside.enter_last()
"""


@pytest.mark.parametrize(
    ("hole", "action", "outcome"),
    [
        ("socket", "open a socket", "it went through"),
        ("connect", "connect", "EBADF"),
        ("execve", "run a program", "ENOENT"),
    ],
)
def test_self_test_finds_a_hole_in_the_filter(hole: str, action: str, outcome: str) -> None:
    code = HOLES.replace("HOLE", repr(hole)).replace("ACTION", repr(action))
    said = _last_line(code)
    assert said.endswith("[self_test_failed]")
    assert f"could still {action} ({outcome})" in said


def test_self_test_finds_that_processes_can_be_started() -> None:
    code = HOLES.replace('"fork", "clone", ', "").replace(', "clone3"', "")
    code = code.replace("HOLE", "'none'").replace("ACTION", "'start a process'")
    assert "could still start a process (it went through)" in _last_line(code)
