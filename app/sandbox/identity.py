"""Whose process an engine is: ours, or, when root starts it, that of a dedicated system user.

Owns: the user and its making, and the question whether it can read a path. Must not: change the
identity of this process: only the child is dropped.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpugoblin.errors import SandboxError

__all__ = ["ENGINE_UID", "ENGINE_USER", "Drop", "drop_for", "first_closed_part"]

ENGINE_USER: Final = "gpugoblin-engine"
ENGINE_UID: Final = 61845
"""Taken where the user cannot be made (a read-only /etc). Above the range that distributions give
to people and below systemd's dynamic users. Not `nobody`: its limits are shared with others."""

_CAP_SETGID, _CAP_SETUID = 6, 7


@dataclass(frozen=True, slots=True)
class Drop:
    """The user that a child becomes before it runs anything; all groups are given up."""

    uid: int
    gid: int


def _known() -> Drop | None:
    try:
        entry = pwd.getpwnam(ENGINE_USER)
    except KeyError:
        return None
    return Drop(entry.pw_uid, entry.pw_gid) if entry.pw_uid else None


def _make_user() -> None:
    """Tries to; whoever calls looks whether it is there afterward."""
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin")
    if useradd is None or not os.access("/etc/passwd", os.W_OK):
        return
    subprocess.run(
        [
            useradd,
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir",
            "/nonexistent",
            "--shell",
            "/usr/sbin/nologin",
            ENGINE_USER,
        ],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def drop_for(
    euid: int,
    capabilities: Callable[[], int] = _effective_capabilities,
    make_user: Callable[[], None] = _make_user,
) -> Drop | None:
    """Whom a child of `euid` becomes: None for an ordinary user, who stays what he is.

    Raises:
        SandboxError: `drop_impossible`, for a root without the capabilities to change users.
    """
    if euid != 0:
        return None
    held = capabilities()
    missing = [
        name
        for name, bit in (("CAP_SETUID", _CAP_SETUID), ("CAP_SETGID", _CAP_SETGID))
        if not held >> bit & 1
    ]
    if missing:
        raise SandboxError("drop_impossible", reason=f"it lacks {' and '.join(missing)}")
    known = _known()
    if known is None:
        make_user()
        known = _known()
    return known or Drop(ENGINE_UID, ENGINE_UID)


def _may(status: os.stat_result, drop: Drop, for_others: int) -> bool:
    """`for_others`: S_IXOTH or S_IROTH; shifted to the owner's or the group's place."""
    if status.st_uid == drop.uid:
        return bool(status.st_mode & for_others << 6)
    if status.st_gid == drop.gid:
        return bool(status.st_mode & for_others << 3)
    return bool(status.st_mode & for_others)


def first_closed_part(path: Path, drop: Drop) -> Path | None:
    """The uppermost directory on the way to `path` that this user cannot pass; None if it can."""
    for part in (*reversed(path.parents), path):
        status = part.stat()
        needed = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if not _may(status, drop, needed):
            return part
    return None
