"""What an engine may take: time and private memory.

Owns: the limits and the reading of a process's memory. Must not: end anything itself.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MEMORY_PERIOD_S", "private_bytes", "time_limit_s"]

MEMORY_PERIOD_S: Final = 0.1
"""How often memory is read while a task runs; one reading costs about 0.1 ms."""


def time_limit_s(predicted_s: float) -> float:
    """Twice the prediction and 5 s more."""
    return 2.0 * max(0.0, predicted_s) + 5.0


def private_bytes(pid: int, arena_bytes: int) -> int | None:
    """Resident anonymous and shared memory of a process beyond its arenas; None if it is gone.

    RLIMIT_DATA does not see shared mappings, so this is the limit that counts for them. Pages of
    the arenas are the parent's own decision and are taken off.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            text = file.read(8192)
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = {b"RssAnon": 0, b"RssShmem": 0}
    for line in text.splitlines():
        name, _, rest = line.partition(b":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return found[b"RssAnon"] + max(0, found[b"RssShmem"] - arena_bytes)
