"""How much of the machine an engine may take, set from outside and read back.

Owns: resource limits, niceness, the wish to be ended first when memory runs out, and a memory
cgroup where the system has delegated one. Must not: watch a running engine (`app.host` does).
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpugoblin.units import GIB

__all__ = [
    "NICE",
    "OOM_SCORE",
    "PRLIMIT",
    "Cgroup",
    "delegated_cgroup",
    "limit_tasks",
    "prefix",
    "volunteer_for_oom",
    "wished_limits",
    "wrong_limits",
]

NICE: Final = 10
OOM_SCORE: Final = 800
FILE_BYTES: Final = GIB
OPEN_FILES: Final = 256
STACK_BYTES: Final = 8 * 1024 * 1024

ENGINE_TASKS: Final = 256
USER_TASKS: Final = 1024
"""Threads of all engines of the dedicated user together."""
PRLIMIT: Final = Path("/usr/bin/prlimit")

_OPTIONS: Final = {
    resource.RLIMIT_DATA: "data",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_CORE: "core",
    resource.RLIMIT_MSGQUEUE: "msgqueue",
    resource.RLIMIT_MEMLOCK: "memlock",
    resource.RLIMIT_NICE: "nice",
    resource.RLIMIT_RTPRIO: "rtprio",
    resource.RLIMIT_STACK: "stack",
}
_PROC_NAMES: Final = {
    resource.RLIMIT_DATA: "Max data size",
    resource.RLIMIT_FSIZE: "Max file size",
    resource.RLIMIT_NOFILE: "Max open files",
    resource.RLIMIT_CORE: "Max core file size",
    resource.RLIMIT_MSGQUEUE: "Max msgqueue size",
    resource.RLIMIT_MEMLOCK: "Max locked memory",
    resource.RLIMIT_NICE: "Max nice priority",
    resource.RLIMIT_RTPRIO: "Max realtime priority",
    resource.RLIMIT_STACK: "Max stack size",
}


def wished_limits(memory_bytes: int) -> dict[int, int]:
    """Limit by number. RLIMIT_DATA, not RLIMIT_AS: reserved addresses cost nothing."""
    return {
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NICE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_STACK: STACK_BYTES,
    }


def prefix(memory_bytes: int, dedicated_user: bool) -> list[str]:
    """The words in front of a command that make it run under the limits.

    A program sets them on itself before it becomes the sandbox: setting them from outside needs
    CAP_SYS_RESOURCE as soon as the engine is another user's, and containers take that away. Never
    asks for more than this process has itself, which an ordinary user could not get.

    Args:
        dedicated_user: the user has no processes but engines, so their number can be limited.
    """
    words = [str(PRLIMIT)]
    for which, wished in wished_limits(memory_bytes).items():
        _, hard = resource.getrlimit(which)
        value = wished if hard == resource.RLIM_INFINITY else min(wished, hard)
        words.append(f"--{_OPTIONS[which]}={value}:{value}")
    if dedicated_user:
        words.append(f"--nproc={USER_TASKS}:{USER_TASKS}")
    return words


def limit_tasks(pid: int) -> bool:
    """At most `ENGINE_TASKS` threads, counted in the engine's own user namespace.

    Only after that namespace was made: before, the user's other processes would count. Where the
    engine is another user's and we lack CAP_SYS_RESOURCE, the limit of `prefix` has to do.

    Returns:
        False in that case.

    Raises:
        ProcessLookupError: it has ended.
    """
    try:
        resource.prlimit(pid, resource.RLIMIT_NPROC, (ENGINE_TASKS, ENGINE_TASKS))
    except PermissionError:
        return False
    return True


def volunteer_for_oom(pid: int) -> None:
    """When memory runs out, the kernel ends this process before any of the owner's.

    Raises:
        ProcessLookupError: it has ended.
    """
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(OOM_SCORE), encoding="ascii")
    except FileNotFoundError as gone:
        raise ProcessLookupError(pid) from gone


def wrong_limits(table: str, memory_bytes: int) -> list[str]:
    """What in `/proc/PID/limits` is higher than wished."""
    found: dict[str, str] = {}
    for line in table.splitlines():
        for name in _PROC_NAMES.values():
            if line.startswith(name):
                found[name] = line[len(name) :].split()[1]  # the hard limit
    wrong: list[str] = []
    for which, wished in wished_limits(memory_bytes).items():
        name = _PROC_NAMES[which]
        value = found.get(name, "missing")
        if not value.isdigit() or int(value) > wished:
            wrong.append(f"{name} is {value}, not {wished}")
    return wrong


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A group of our own for one engine, with a hard limit of memory."""

    path: Path

    def kill_and_remove(self) -> None:
        """Ends all in it and removes it; harmless when it is gone."""
        try:
            (self.path / "cgroup.kill").write_text("1", encoding="ascii")
            self.path.rmdir()
        except OSError:
            return


def _own_group(root: Path, membership: str) -> Path | None:
    for line in membership.splitlines():
        if line.startswith("0::/"):
            return root / line[4:]
    return None


def delegated_cgroup(
    name: str,
    memory_bytes: int,
    root: Path = Path("/sys/fs/cgroup"),
    membership: str | None = None,
) -> Cgroup | None:
    """A fresh group below the one that the service manager delegated to us, or None.

    It counts only when the limits read back as written: a controller that was not delegated is
    passed over in silence by everybody else.
    """
    if membership is None:
        membership = Path("/proc/self/cgroup").read_text(encoding="ascii")
    own = _own_group(root, membership)
    if own is None or not (own / "cgroup.controllers").is_file():
        return None
    # Processes may live only in leaves: the service manager puts us into one, and engines beside.
    parent = own.parent
    group = parent / name
    try:
        if "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            return None
        group.mkdir(exist_ok=True)
        for file, value in (("memory.max", str(memory_bytes)), ("memory.swap.max", "0")):
            (group / file).write_text(value, encoding="ascii")
            if (group / file).read_text(encoding="ascii").strip() != value:
                raise OSError(f"{file} did not take {value}")
        (group / "pids.max").write_text("256", encoding="ascii")
    except OSError:
        if group.is_dir():
            Cgroup(group).kill_and_remove()
        return None
    return Cgroup(group)
