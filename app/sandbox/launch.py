"""Starting an engine at the level that was demanded, or refusing.

Owns: the order of a start: program and runtime checked, filter made, bubblewrap started by the one
launcher thread as the engine's own user, its process found, limits set. Must not: give a lower
level than demanded, pass on anything of this process's environment, or run bubblewrap as root.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

from app.sandbox import bwrap, cgroups, host_fixes, landlock, limits, refusals
from app.sandbox.attest import Expectation, own_namespaces
from app.sandbox.cgroups import Group, Scope
from app.sandbox.identity import Drop, drop_for, first_closed_part
from app.sandbox.launcher import Launcher
from app.sandbox.plain import PlainProcess, engine_arguments, launch_plain
from app.sandbox.process import EngineProcess, Pids
from app.sandbox.runtime import hold
from app.sandbox.seccomp import compile_policy
from app.sandbox.spec import CardAccess, CardPolicy, EngineLaunch, Level, Runtime
from app.sandbox.stages import stage_one
from gpugoblin.errors import SandboxError

__all__ = ["WALLS", "Walls", "installed_bwrap", "launch"]

START_LIMIT_S: Final = 10.0
POLL_S: Final = 0.001
STOP_S: Final = 1.0
BWRAP_PLACES: Final = (Path("/usr/lib/gpugoblin/bwrap"), Path("/usr/bin/bwrap"))
"""The package's own copy, which its AppArmor profile names (decision 123), then the system's."""
SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


def installed_bwrap(places: Sequence[Path] = BWRAP_PLACES) -> Path:
    """The first of these programs that is there; the last one, to be named, where none is."""
    return next((place for place in places if place.exists()), places[-1])


@dataclass(frozen=True, slots=True)
class Walls:
    """What a launch uses of the machine; tests put other things in its place.

    Args:
        bwrap: the program, by its absolute path: never looked up.
        entry: what the interpreter runs, below the runtime's `app`.
        drop: the user that children of root become.
    """

    bwrap: Path = field(default_factory=installed_bwrap)
    entry: str = "app/engine/child.py"
    drop: Callable[[int], Drop | None] = drop_for


WALLS: Final = Walls()


@cache
def _launcher() -> Launcher:
    """The one of this process: engines that share a thread share its fate."""
    return Launcher()


def launch(spec: EngineLaunch, walls: Walls = WALLS) -> EngineProcess | PlainProcess:
    """Starts an engine at exactly `spec.level`.

    Returns when the process that will be the engine exists, 20 to 30 ms later at the level `full`.
    Call `attest` when the engine says that it is ready.

    Raises:
        SandboxError: the level cannot be had here, with the cause and its fix on this machine.
    """
    if spec.level == "none":
        return launch_plain(spec)
    with host_fixes.advising():
        return _walled(spec, walls)


def _walled(spec: EngineLaunch, walls: Walls) -> EngineProcess:
    drop = walls.drop(os.geteuid())
    _check_runtime(spec.runtime, drop)
    refusals.check_program(limits.PRLIMIT, "prlimit_missing")
    if landlock.abi() == 0:  # the engine would find it, and die of it
        raise SandboxError("landlock_missing")
    if spec.level == "reduced":
        return _start(spec, walls, drop, None)
    refusals.check_program(walls.bwrap)
    scope = None if drop is not None else cgroups.user_scope(os.geteuid(), _group_bytes(spec))
    if scope is not None:
        try:
            return _start(spec, walls, drop, scope)
        except SandboxError as error:
            # A session without a working manager: the other limits and the watchdog remain.
            if error.code != "sandbox_start_failed":
                raise
    return _start(spec, walls, drop, None)


def _group_bytes(spec: EngineLaunch) -> int:
    """Pages of the arenas count for whoever touches them first, and that may be the engine."""
    return spec.memory_bytes + spec.input_bytes + spec.output_bytes


def _start(
    spec: EngineLaunch, walls: Walls, drop: Drop | None, scope: Scope | None
) -> EngineProcess:
    order = _full if spec.level == "full" else _reduced
    process = _launcher().start(lambda: order(spec, walls, drop, scope))
    try:
        if spec.level == "full":
            process.found(_find_engine(process, walls.bwrap, _uid(drop)))
            limits.limit_tasks(process.engine_pid)
        process.expectation = _expectation(spec, process.level, _uid(drop))
        limits.volunteer_for_oom(process.engine_pid)
        process.cgroup = _group(process.pids, _group_bytes(spec), scope)
    except ProcessLookupError:
        process.wait(START_LIMIT_S)
        raise _failure(process, walls.bwrap, _uid(drop)) from None
    except BaseException:
        process.end()
        raise
    return process


def _group(pids: Pids, memory_bytes: int, scope: Scope | None) -> Group | None:
    if scope is None:
        return cgroups.delegated_group((pids.first, pids.engine), memory_bytes)
    try:
        membership = Path(f"/proc/{pids.engine}/cgroup").read_text(encoding="ascii")
    except FileNotFoundError as gone:
        raise ProcessLookupError(pids.engine) from gone
    return cgroups.limited_group(membership, memory_bytes)


def _uid(drop: Drop | None) -> int:
    return os.getuid() if drop is None else drop.uid


def _check_runtime(runtime: Runtime, drop: Drop | None) -> None:
    if drop is None:
        return
    for path in (runtime.python, runtime.app):
        blocked = first_closed_part(path, drop)
        if blocked is not None:
            raise SandboxError("runtime_unreadable", uid=drop.uid, path=path, blocked=blocked)


def _own_filters() -> int:
    """Filters on this process, as in a container; the engine inherits them."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("Seccomp_filters:"):
            return int(line.split()[1])
    return 0


def _expectation(spec: EngineLaunch, level: Level, uid: int) -> Expectation:
    given = (spec.control_fd, spec.input_fd, spec.output_fd)
    return Expectation(
        level=level,
        descriptors=tuple(os.readlink(f"/proc/self/fd/{number}") for number in given),
        outside=own_namespaces(),
        filters=_own_filters() + 2,
        uid=uid,
        memory_bytes=spec.memory_bytes,
        card=spec.card,
    )


def _popen(
    command: list[str],
    kept: tuple[int, ...],
    environment: dict[str, str],
    drop: Drop | None,
    groups: list[int],
) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and the end of a pipe where its errors come out."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            cwd="/",
            close_fds=True,
            pass_fds=kept,
            user=None if drop is None else drop.uid,
            group=None if drop is None else drop.gid,
            extra_groups=None if drop is None else groups,
        )
    except BaseException as cause:
        os.close(ours)
        if isinstance(cause, OSError):
            raise SandboxError(
                "sandbox_start_failed", status=None, said=cause.strerror or cause
            ) from cause
        raise
    finally:
        os.close(theirs)
    return process, ours


def _groups(card: CardAccess) -> list[int]:
    """Those that may open the card's nodes: a user of root's making is in none by itself."""
    found = set()
    for node in card.nodes:
        try:
            found.add(os.stat(node).st_gid)
        except OSError:
            continue  # bubblewrap says it
    return sorted(found - {0})


def _filter_file(policy: CardPolicy) -> int:
    """A sealed file in memory that holds the program of stage 1."""
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, compile_policy(stage_one(policy)))
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    return descriptor


def _engine_words(spec: EngineLaunch, root: str, walls: Walls) -> list[str]:
    """The engine's argument list with its runtime at `root`."""
    host = spec.runtime.root
    inside = Runtime(
        root=Path(root),
        python=Path(root) / spec.runtime.python.relative_to(host),
        app=Path(root) / spec.runtime.app.relative_to(host),
        build=spec.runtime.build,
    )
    words = engine_arguments(replace(spec, runtime=inside))
    shipped = str(inside.app / WALLS.entry)
    return [str(inside.app / walls.entry) if word == shipped else word for word in words]


def _full(
    spec: EngineLaunch, walls: Walls, drop: Drop | None, scope: Scope | None
) -> EngineProcess:
    masked = tuple(path for path in bwrap.MASKED if os.path.exists(path))
    runtime_lock = hold(spec.runtime)
    words = () if scope is None else scope.words
    seccomp_fd = _filter_file(spec.card.policy)
    status_ours, status_theirs = os.pipe()
    try:
        view = bwrap.View(
            runtime=str(spec.runtime.root),
            seccomp_fd=seccomp_fd,
            status_fd=status_theirs,
            masked=masked,
            environment=spec.environment,
            card=spec.card,
        )
        command = limits.prefix(spec.memory_bytes, drop is not None) + bwrap.command(
            str(walls.bwrap), view, _engine_words(spec, bwrap.INSIDE_ROOT, walls)
        )
        kept = (spec.control_fd, spec.input_fd, spec.output_fd, seccomp_fd, status_theirs)
        environment = {} if scope is None else scope.environment
        process, stderr = _popen([*words, *command], kept, environment, drop, _groups(spec.card))
    except BaseException:
        os.close(status_ours)
        os.close(runtime_lock)
        raise
    finally:
        os.close(seccomp_fd)
        os.close(status_theirs)
    engine = EngineProcess(
        process, stderr, "full", (runtime_lock, status_ours), _launcher().release
    )
    engine.status_fd = status_ours
    engine.masked = frozenset(masked)
    return engine


def _reduced(
    spec: EngineLaunch, walls: Walls, drop: Drop | None, scope: Scope | None
) -> EngineProcess:
    root = str(spec.runtime.root)
    environment = {
        **spec.environment,
        **bwrap.fixed_environment(root, "reduced", f"{root}/lib", spec.card),
    }
    runtime_lock = hold(spec.runtime)
    try:
        kept = (spec.control_fd, spec.input_fd, spec.output_fd)
        command = limits.prefix(spec.memory_bytes, drop is not None) + _engine_words(
            spec, root, walls
        )
        process, stderr = _popen(command, kept, environment, drop, _groups(spec.card))
    except BaseException:
        os.close(runtime_lock)
        raise
    return EngineProcess(process, stderr, "reduced", (runtime_lock,), _launcher().release)


def _failure(process: EngineProcess, program: Path, uid: int) -> SandboxError:
    """Why it has ended; call it when it is reaped, so that its last words are complete."""
    return refusals.classify(process.stderr_tail(), process.wait(0.0), program, uid)


def _find_engine(process: EngineProcess, program: Path, uid: int) -> Pids:
    """Waits for bubblewrap to name its child, and for that to have forked the engine.

    Raises:
        SandboxError: it ended first, or took too long.
    """
    deadline_s = time.monotonic() + START_LIMIT_S
    first = _first_process(process, deadline_s)
    while first is not None and time.monotonic() < deadline_s:
        try:
            text = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            break
        if text:
            return Pids(process.pid, first, int(text.split()[0]))
        time.sleep(POLL_S)
    if process.wait(STOP_S) is not None:
        raise _failure(process, program, uid)
    process.end()
    raise SandboxError("sandbox_start_slow", limit_s=START_LIMIT_S)


def _first_process(process: EngineProcess, deadline_s: float) -> int | None:
    """Process 1 inside, from the first JSON object on the status pipe; None if it never came."""
    waiter = select.poll()
    waiter.register(process.status_fd, select.POLLIN)
    said = b""
    while time.monotonic() < deadline_s and b"}" not in said:
        if waiter.poll(100):
            piece = os.read(process.status_fd, 4096)
            if not piece:
                return None
            said += piece
    try:
        return int(json.loads(said[: said.index(b"}") + 1])["child-pid"])
    except (ValueError, KeyError):
        return None
