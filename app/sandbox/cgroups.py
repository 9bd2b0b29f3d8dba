"""A hard limit of memory for one engine, where the system has given us the right to set one.

Owns: the two ways to such a group (a scope of the user's service manager; a group beside our own
where a service was delegated its tree), and the reading back. Must not: take a limit for granted
that it has not read back: a service manager passes over a missing controller in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpugoblin.units import KIB

__all__ = ["Group", "Scope", "delegated_group", "limited_group", "user_scope"]

ROOT: Final = Path("/sys/fs/cgroup")
TASKS: Final = 256
CPU_WEIGHT: Final = 20
PAGE_BYTES: Final = 4 * KIB


@dataclass(frozen=True, slots=True)
class Scope:
    """What to put in front of a command so that it runs in a scope of the user's manager.

    Args:
        words: end with a program that empties the environment again.
        environment: what the first of them needs.
    """

    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """A group whose limit was read back.

    Args:
        ours: we made it, so we remove it; else the service manager does.
    """

    path: Path
    ours: bool

    def remove(self) -> None:
        """Ends all in it, and removes it; harmless when it is gone."""
        if not self.ours:
            return
        try:
            (self.path / "cgroup.kill").write_text("1", encoding="ascii")
            self.path.rmdir()
        except OSError:
            return


def _whole_pages(size_bytes: int) -> int:
    return size_bytes // PAGE_BYTES * PAGE_BYTES


def _words_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def user_scope(
    uid: int,
    memory_bytes: int,
    root: Path = ROOT,
    runtime_dirs: Path = Path("/run/user"),
    systemd_run: Path = Path("/usr/bin/systemd-run"),
) -> Scope | None:
    """For an ordinary user in a session whose manager may limit memory; else None."""
    manager = root / f"user.slice/user-{uid}.slice/user@{uid}.service"
    runtime_dir = runtime_dirs / str(uid)
    if "memory" not in _words_of(manager / "cgroup.subtree_control"):
        return None
    if not (runtime_dir / "systemd/private").exists() or not systemd_run.exists():
        return None
    words = (
        str(systemd_run),
        *("--user", "--scope", "--quiet", "--collect"),
        *("-p", f"MemoryMax={_whole_pages(memory_bytes)}"),
        *("-p", "MemorySwapMax=0"),
        *("-p", f"TasksMax={TASKS}"),
        *("-p", f"CPUWeight={CPU_WEIGHT}"),
        *("--", "/usr/bin/env", "-i"),
    )
    return Scope(words, {"XDG_RUNTIME_DIR": str(runtime_dir)})


def _group_path(membership: str, root: Path) -> Path | None:
    for line in membership.splitlines():
        if line.startswith("0::/"):
            return root / line[4:]
    return None


def _limits_hold(group: Path, memory_bytes: int) -> bool:
    limit, swap = _words_of(group / "memory.max"), _words_of(group / "memory.swap.max")
    return limit == [str(_whole_pages(memory_bytes))] and swap == ["0"]


def limited_group(membership: str, memory_bytes: int, root: Path = ROOT) -> Group | None:
    """The group that a process is in, if its limit is what was asked for.

    Args:
        membership: text of `/proc/PID/cgroup`.
    """
    path = _group_path(membership, root)
    if path is None or not _limits_hold(path, memory_bytes):
        return None
    return Group(path, ours=False)


def delegated_group(
    pids: tuple[int, ...],
    memory_bytes: int,
    root: Path = ROOT,
    membership: str | None = None,
) -> Group | None:
    """A fresh group beside ours, with these processes moved into it; None without delegation.

    Processes live only in leaves, so our own group is one (systemd: `DelegateSubgroup=`), and
    engines get leaves beside it.
    """
    if membership is None:
        membership = Path("/proc/self/cgroup").read_text(encoding="ascii")
    own = _group_path(membership, root)
    if own is None or own == root:
        return None
    if "memory" not in _words_of(own.parent / "cgroup.subtree_control"):
        return None
    group = Group(own.parent / f"engine-{pids[-1]}", ours=True)
    try:
        group.path.mkdir(exist_ok=True)
        limit = str(_whole_pages(memory_bytes))
        (group.path / "memory.max").write_text(limit, encoding="ascii")
        (group.path / "memory.swap.max").write_text("0", encoding="ascii")
        if not _limits_hold(group.path, memory_bytes):
            raise OSError("the limit was not taken")
        for pid in pids:
            (group.path / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except OSError:
        group.remove()
        return None
    return group
