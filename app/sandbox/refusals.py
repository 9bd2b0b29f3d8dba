"""From what bubblewrap said, or what the disk shows of it, to a refusal with its one-line fix.

Owns: the recognition of each cause. Must not: start anything but `bwrap --version`.
"""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path
from typing import Final

from gpugoblin.errors import SandboxError

__all__ = ["NEEDED_VERSION", "check_program", "check_version", "classify"]

NEEDED_VERSION: Final = (0, 8)
"""Brings `--disable-userns` and `--assert-userns-disabled`."""

_PATTERNS: Final = (
    ("namespaces_denied_by_apparmor", r"setting up uid map: Permission denied|RTM_NEWADDR"),
    ("namespaces_forbidden", r"No permissions to creat\w+ new namespace"),
    ("namespaces_nested_too_deep", r"nesting depth|ENOSPC"),
    ("proc_masked", r"Can't mount proc on"),
    ("overflowuid_unreadable", r"overflow[ug]id"),
    ("seccomp_missing", r"PR_SET_SECCOMP"),
    ("bwrap_too_old", r"Unknown option"),
)
_UNREADABLE: Final = re.compile(r"Can't find source path (\S+): Permission denied")
_INNER: Final = re.compile(r"\[(landlock_missing|landlock_too_old|walls_incomplete)\]")


def check_program(path: Path, missing: str = "bwrap_missing") -> None:
    """Is there a program that only root can change, without a setuid bit?

    Args:
        missing: the code for one that is not there.

    Raises:
        SandboxError: `bwrap_missing`, `prlimit_missing`, `bwrap_setuid`, `bwrap_untrusted`.
    """
    try:
        status = path.stat()
    except OSError:
        raise SandboxError(missing, path=path) from None
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & stat.S_IXOTH:
        raise SandboxError(missing, path=path)
    if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SandboxError(
            "bwrap_untrusted",
            path=path,
            owner=status.st_uid,
            mode=f"{stat.S_IMODE(status.st_mode):04o}",
        )
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise SandboxError("bwrap_setuid", path=path)


def check_version(path: Path) -> str:
    """The version that the program says it has, if that is new enough.

    Raises:
        SandboxError: `bwrap_too_old`.
    """
    said = subprocess.run(
        [str(path), "--version"],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout.decode("ascii", "replace")
    match = re.search(r"(\d+)\.(\d+)(?:\.\d+)*", said)
    if match is None or (int(match[1]), int(match[2])) < NEEDED_VERSION:
        raise SandboxError(
            "bwrap_too_old",
            path=path,
            found=match[0] if match else "unknown",
            needed=".".join(map(str, NEEDED_VERSION)),
        )
    return match[0]


def _no_namespaces_at_all() -> bool:
    try:
        text = Path("/proc/sys/user/max_user_namespaces").read_text(encoding="ascii")
    except OSError:
        return False
    return text.strip() == "0"


def classify(said: str, status: int | None, bwrap: Path, uid: int) -> SandboxError:
    """The refusal behind bubblewrap's last words.

    Args:
        said: its standard error. status: its exit status.
        uid: whose process it was.
    """
    line = " ".join(said.split())[-300:] or "it said nothing"
    blocked = _UNREADABLE.search(said)
    if blocked is not None:
        return SandboxError("runtime_unreadable", uid=uid, path=blocked[1], blocked=blocked[1])
    inner = _INNER.search(said)
    if inner is not None:
        return SandboxError("walls_incomplete", reason=line)
    for code, pattern in _PATTERNS:
        if re.search(pattern, said) is None:
            continue
        if code == "namespaces_nested_too_deep" and _no_namespaces_at_all():
            code = "namespaces_forbidden"
        return SandboxError(
            code, path=bwrap, said=line, found="older", needed=".".join(map(str, NEEDED_VERSION))
        )
    return SandboxError("sandbox_start_failed", status=status, said=line)
