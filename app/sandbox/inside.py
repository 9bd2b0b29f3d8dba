"""The inner walls, built by the engine around itself.

Owns: what the engine calls first (`enter_first`, before NumPy) and last (`enter_last`, after its
warm-up and before the first byte of a task), and the self-test. Must not: import anything but the
standard library and the other modules of the walls, nor trust that it worked: the parent examines
the process from outside before it sends a task.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from ctypes import CDLL, c_long, get_errno
from typing import Final, get_args

from app.sandbox import landlock, seccomp
from app.sandbox.landlock import (
    DEVICE_COMMANDS,
    READ_DIRECTORY,
    READ_FILE,
    WRITE_FILE,
    PathRule,
)
from app.sandbox.spec import CardPolicy
from app.sandbox.stages import stage_one, stage_two
from app.sandbox.syscalls import NUMBERS
from gpugoblin.errors import SandboxError

__all__ = [
    "LEVEL_VARIABLE",
    "NODES_VARIABLE",
    "POLICY_VARIABLE",
    "ROOT_VARIABLE",
    "SHOWN_VARIABLE",
    "WALLS_VARIABLE",
    "enter_first",
    "enter_last",
]

WALLS_VARIABLE: Final = "GPUGOBLIN_WALLS"
"""`1` where the engine must build its inner walls."""
LEVEL_VARIABLE: Final = "GPUGOBLIN_LEVEL"
ROOT_VARIABLE: Final = "GPUGOBLIN_RUNTIME"
"""The runtime's directory as the engine sees it."""
POLICY_VARIABLE: Final = "GPUGOBLIN_CARD_POLICY"
NODES_VARIABLE: Final = "GPUGOBLIN_CARD_NODES"
"""The card's device nodes, parted by bars."""
SHOWN_VARIABLE: Final = "GPUGOBLIN_CARD_SHOWN"
"""Directories that its driver reads, parted by bars."""

ABI_VARIABLE: Final = "GPUGOBLIN_LANDLOCK_ABI"

REDUCED_ABI: Final = 4
"""Without namespaces Landlock has to close the network, which it can from this ABI on."""

_READ = READ_FILE | READ_DIRECTORY
_DEVICE = READ_FILE | WRITE_FILE | DEVICE_COMMANDS
_POLICIES: Final[dict[str, CardPolicy]] = {policy: policy for policy in get_args(CardPolicy)}
_PR_SET_PDEATHSIG: Final = 1


def _rules(root: str, level: str) -> list[PathRule]:
    rules = [
        PathRule(root, _READ),
        PathRule("/sys/devices/system/cpu", _READ),
        PathRule("/proc/self", _READ),
        # CUDA names its threads by writing here; nothing else below is writable to the owner.
        PathRule("/proc/self/task", _READ | WRITE_FILE),
        PathRule("/dev/null", READ_FILE | WRITE_FILE),
        PathRule("/dev/urandom", READ_FILE),
    ]
    rules += [PathRule(node, _DEVICE) for node in _words(NODES_VARIABLE)]
    rules += [PathRule(path, _READ) for path in _words(SHOWN_VARIABLE)]
    if level == "reduced":
        # No namespace hides the host's libraries here, and none is copied over them either.
        rules += [PathRule(path, _READ) for path in ("/usr/lib", "/lib", "/lib64", "/usr/lib64")]
        rules.append(PathRule("/etc/ld.so.cache", READ_FILE))
    return rules


def _words(variable: str) -> list[str]:
    return [word for word in os.environ.get(variable, "").split("|") if word]


def _policy() -> CardPolicy:
    """Of the card; an unknown one is none, which gives nothing."""
    return _POLICIES.get(os.environ.get(POLICY_VARIABLE, "none"), "none")


def _die_with_parent() -> None:
    """Without bubblewrap nobody else sees to it. The parent may have gone just before."""
    parent = os.getppid()
    CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def enter_first() -> int:
    """Landlock, and at the level `reduced` the first filter too. Call it before NumPy.

    Returns:
        The ABI of Landlock.

    Raises:
        SandboxError: `landlock_missing`, `landlock_too_old`, `walls_incomplete`.
    """
    level = os.environ.get(LEVEL_VARIABLE, "full")
    if level == "reduced":
        _die_with_parent()
    try:
        abi = landlock.abi()
        if abi == 0:
            raise SandboxError("landlock_missing")
        if level == "reduced" and abi < REDUCED_ABI:
            raise SandboxError("landlock_too_old", abi=abi, level=level, needed=REDUCED_ABI)
        landlock.restrict(_rules(os.environ[ROOT_VARIABLE], level))
        if level == "reduced":
            seccomp.load(seccomp.compile_policy(stage_one(_policy())))
    except (OSError, KeyError) as cause:
        raise SandboxError("walls_incomplete", reason=cause) from cause
    # `enter_last` tells it, and by then the kernel answers no such question.
    os.environ[ABI_VARIABLE] = str(abi)
    return abi


def enter_last() -> dict[str, bool | int | str]:
    """The second filter over all threads, then the self-test. Call it after the warm-up.

    Returns:
        What stands: `level`, `landlock_abi`, `seccomp_stage`, `self_test`.

    Raises:
        SandboxError: `walls_incomplete`, `self_test_failed`.
    """
    try:
        seccomp.load(seccomp.compile_policy(stage_two(os.getpid(), _policy())))
    except OSError as cause:
        raise SandboxError("walls_incomplete", reason=cause) from cause
    _self_test()
    return {
        "level": os.environ.get(LEVEL_VARIABLE, "full"),
        "landlock_abi": int(os.environ.get(ABI_VARIABLE, "0")),
        "seccomp_stage": 2,
        "self_test": True,
    }


def _call(name: str, *arguments: object) -> int:
    """The errno of a raw call; 0 if it went through."""
    libc = CDLL(None, use_errno=True)
    libc.syscall.restype = c_long
    return get_errno() if libc.syscall(c_long(NUMBERS[name]), *arguments) < 0 else 0


def _open(path: bytes, flags: int) -> int:
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError as refused:
        return refused.errno or 0
    return 0


def _fork() -> int:
    try:
        pid = os.fork()
    except OSError as refused:
        return refused.errno or 0
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return 0


_REFUSALS: Final = frozenset((errno.EPERM, errno.EACCES))

_TESTS: Final[tuple[tuple[str, Callable[[], int], frozenset[int]], ...]] = (
    # A call that would fail anyway tells nothing, so each test accepts only a wall's own answer.
    (
        "open a socket",
        lambda: _call("socket", c_long(2), c_long(1), c_long(0)),
        frozenset((errno.EAFNOSUPPORT, errno.EPERM)),
    ),
    ("connect", lambda: _call("connect", c_long(-1), None, c_long(0)), _REFUSALS),
    (
        "read /etc/passwd",
        lambda: _open(b"/etc/passwd", os.O_RDONLY),
        frozenset((errno.EACCES, errno.ENOENT)),
    ),
    ("write a file", lambda: _open(b"/tmp/x", os.O_WRONLY | os.O_CREAT), _REFUSALS),
    ("start a process", _fork, _REFUSALS),
    ("run a program", lambda: _call("execve", b"/nonexistent", None, None), _REFUSALS),
)


def _self_test() -> None:
    for action, attempt, accepted in _TESTS:
        number = attempt()
        if number not in accepted:
            outcome = errno.errorcode.get(number, str(number)) if number else "it went through"
            raise SandboxError("self_test_failed", action=action, outcome=outcome)
