"""How much of the machine an engine may take, set from outside and read back.

Owns: resource limits, niceness, and the wish to be ended first when memory runs out. Must not:
watch a running engine (`app.host` does), nor know control groups (`cgroups.py`).
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

from gpugoblin.units import GIB

__all__ = [
    "NICE",
    "OOM_SCORE",
    "PRLIMIT",
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
