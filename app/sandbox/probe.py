"""Can walls be had on this machine, and which? Asked before anything is lent, and by `doctor`.

Owns: the trial (a real launch of an engine that only builds its walls, with the proof from outside
and the self-test from inside), the memory of it until the next boot, and the list for `doctor`.
Must not: decide what a lower level may be used for.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import select
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from app.sandbox import host_fixes, landlock, limits, refusals
from app.sandbox.launch import WALLS, Walls, launch
from app.sandbox.process import EngineProcess
from app.sandbox.spec import EngineLaunch, Level, Runtime
from gpugoblin.errors import SandboxError
from gpugoblin.units import MIB

__all__ = ["Finding", "Health", "doctor", "probe", "trial"]

SELF_TEST_ENTRY: Final = "app/sandbox/selftest.py"
TRIAL_LIMIT_S: Final = 10.0
ARENA_BYTES: Final = 4096
MEMORY_BYTES: Final = 256 * MIB
FULL_ABI: Final = 6
_GAPS: Final = ((4, "TCP"), (5, "device commands"), (6, "signals and abstract sockets"))


@dataclass(frozen=True, slots=True)
class Health:
    """Walls that were built, examined and tried.

    Args:
        bwrap: its version; empty at the level `reduced`.
        landlock_abi: as the engine found it.
        hard_memory_limit: a control group holds the limit; else the parent's watchdog does.
        start_ms: from the launch to the engine's report.
        warnings: codes of what is less than best, `landlock_partial` at most.
    """

    level: Level
    bwrap: str
    landlock_abi: int
    hard_memory_limit: bool
    start_ms: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `doctor`: a wall, and what is wrong with it, if anything is."""

    wall: str
    good: bool
    said: str
    next_step: str


def _machine_supported(system: str, machine: str) -> None:
    if (system, machine) != ("Linux", "x86_64"):
        raise SandboxError("sandbox_machine_unsupported", system=system, machine=machine)


def _report(channel: socket.socket, process: EngineProcess) -> dict[str, object]:
    """What the engine says of its walls; empty if it died or stays silent."""
    waiter = select.poll()
    waiter.register(channel, select.POLLIN)
    waiter.register(process, select.POLLIN)
    waiter.poll(TRIAL_LIMIT_S * 1000)
    try:
        said = json.loads(channel.recv(4096, socket.MSG_DONTWAIT) or b"{}")
    except (BlockingIOError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _examined(channel: socket.socket, process: EngineProcess, program: Path) -> tuple[int, bool]:
    """(Landlock's ABI, hard memory limit) of a started engine, or the refusal."""
    report = _report(channel, process)
    if "code" in report:
        fields = report.get("fields")
        raise SandboxError(str(report["code"]), **(fields if isinstance(fields, dict) else {}))
    abi = report.get("landlock_abi")
    if not isinstance(abi, int) or report.get("self_test") is not True:
        status = process.end()
        raise refusals.classify(process.stderr_tail(), status, program, os.geteuid())
    return abi, process.attest().cgroup


def trial(runtime: Runtime, level: Level, walls: Walls = WALLS) -> Health:
    """Starts an engine that only builds its walls, examines it from outside, and ends it.

    Takes about 80 ms.

    Raises:
        SandboxError: what is missing, with its fix.
    """
    with host_fixes.advising():
        return _tried(runtime, level, walls)


def _tried(runtime: Runtime, level: Level, walls: Walls) -> Health:
    _machine_supported(platform.system(), platform.machine())
    version = ""
    if level == "full":
        refusals.check_program(walls.bwrap)
        version = refusals.check_version(walls.bwrap)
    since_s = time.monotonic()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arena = os.memfd_create("probe", os.MFD_CLOEXEC)
    other = os.memfd_create("probe", os.MFD_CLOEXEC)
    try:
        with ours:
            with theirs:
                spec = EngineLaunch(
                    runtime=runtime,
                    control_fd=theirs.fileno(),
                    input_fd=arena,
                    output_fd=other,
                    input_bytes=ARENA_BYTES,
                    output_bytes=ARENA_BYTES,
                    threads=1,
                    memory_bytes=MEMORY_BYTES,
                    level=level,
                )
                process = launch(spec, replace(walls, entry=SELF_TEST_ENTRY))
            if not isinstance(process, EngineProcess):
                raise ValueError("the level none has no walls to try")
            try:
                abi, hard_limit = _examined(ours, process, walls.bwrap)
                taken_ms = (time.monotonic() - since_s) * 1000
            finally:
                process.end()
    finally:
        os.close(arena)
        os.close(other)
    warnings = () if abi >= FULL_ABI else ("landlock_partial",)
    return Health(level, version, abi, hard_limit, round(taken_ms, 1), warnings)


def _identity(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "missing"
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_mode} {status.st_uid}"


def _key(runtime: Runtime, level: Level, walls: Walls) -> str:
    """Everything on which the answer depends; the boot among it, since a reboot changes kernels."""
    parts = (
        Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        runtime.root.name,
        level,
        str(walls.bwrap),
        _identity(walls.bwrap),
        str(os.geteuid()),
        str(limits.OOM_SCORE),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def probe(
    runtime: Runtime,
    state_dir: Path,
    level: Level = "full",
    walls: Walls = WALLS,
    try_now: Callable[[Runtime, Level, Walls], Health] = trial,
) -> Health:
    """As `trial`, remembered until the next boot or change of anything that it depends on.

    A refusal is never remembered: whoever applies its fix is heard at once.

    Raises:
        SandboxError: as `trial`.
    """
    place = state_dir / f"walls-{level}.json"
    key = _key(runtime, level, walls)
    try:
        stored = json.loads(place.read_bytes())
        if stored["key"] == key:
            health = stored["health"]
            return Health(**{**health, "warnings": tuple(health["warnings"])})
    except (OSError, ValueError, KeyError, TypeError):
        pass  # never asked, or written by another version
    health_now = try_now(runtime, level, walls)
    draft = place.with_suffix(".new")
    try:
        draft.write_text(json.dumps({"key": key, "health": asdict(health_now)}), encoding="ascii")
        draft.replace(place)
    except OSError:
        pass  # asked again next time
    return health_now


def doctor(runtime: Runtime, walls: Walls = WALLS) -> tuple[Finding, ...]:
    """Every wall by name, good or with its fix; the trial itself last, fresh."""
    findings = [
        _finding("bubblewrap", lambda: f"version {_version(walls.bwrap)}"),
        _finding("limits", lambda: _limits_there()),
        _finding("Landlock", _landlock),
        _finding("all walls (full)", lambda: _told(trial(runtime, "full", walls))),
        _finding("without namespaces (reduced)", lambda: _told(trial(runtime, "reduced", walls))),
    ]
    return tuple(findings)


def _finding(wall: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(wall, True, look(), "")
    except SandboxError as error:
        good = error.code == "landlock_partial"
        return Finding(wall, good, f"{error.what} [{error.code}]", error.next_step)


def _version(program: Path) -> str:
    refusals.check_program(program)
    return refusals.check_version(program)


def _limits_there() -> str:
    refusals.check_program(limits.PRLIMIT, "prlimit_missing")
    return "set before the engine starts"


def _landlock(abi: Callable[[], int] = landlock.abi) -> str:
    found = abi()
    if found == 0:
        raise SandboxError("landlock_missing")
    missing = [what for since, what in _GAPS if found < since]
    if missing:
        raise SandboxError("landlock_partial", abi=found, missing=", ".join(missing))
    return f"ABI {found}"


def _told(health: Health) -> str:
    memory = "a control group" if health.hard_memory_limit else "the watchdog"
    return f"built and proven in {health.start_ms:.0f} ms; memory is held by {memory}"
