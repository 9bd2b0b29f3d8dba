"""Level `none`: the engine as a plain child, for the user's own jobs only.

Owns: starting, watching and ending a child without walls, with the argument list that every level
uses. Must not: be taken for a sandbox; whoever holds a grant never comes here.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from app.sandbox.spec import EngineLaunch, Level, Runtime
from gpugoblin.errors import EngineError

__all__ = ["PlainProcess", "engine_arguments", "installed_runtime", "launch_plain"]

STDERR_BYTES: Final = 64 * 1024
BASE_ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def installed_runtime() -> Runtime:
    """The interpreter and packages that run this process, uncopied: for level `none` alone."""
    app = Path(__file__).resolve().parents[2]
    return Runtime(root=app, python=Path(sys.executable), app=app, build="installed")


def engine_arguments(spec: EngineLaunch) -> list[str]:
    """The argument list of an engine, the same at every level."""
    numbers = (
        spec.control_fd,
        spec.input_fd,
        spec.input_bytes,
        spec.output_fd,
        spec.output_bytes,
        spec.threads,
        spec.task_bytes or spec.memory_bytes,
    )
    child = spec.runtime.app / "app" / "engine" / "child.py"
    return [
        str(spec.runtime.python),
        "-I",
        "-S",
        "-B",
        str(child),
        *map(str, numbers),
        spec.backend,
    ]


def _packages_of(runtime: Runtime) -> str:
    """Where NumPy lies when the runtime does not hold a copy of its own; empty when it does."""
    if (runtime.app / "numpy").is_dir():
        return ""
    import importlib.util

    found = importlib.util.find_spec("numpy")
    if found is None or found.origin is None:
        raise EngineError("engine_start_failed", reason="NumPy is missing", python=runtime.python)
    return str(Path(found.origin).parents[1])


class PlainProcess:
    """A running plain child. `stderr` is read to its end by a thread of its own, capped."""

    level: Level = "none"

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        self._tail = bytearray()
        self._reader = threading.Thread(target=self._drain, name="engine-stderr", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def engine_pid(self) -> int:
        """The process that computes; at this level the child itself."""
        return self._process.pid

    def fileno(self) -> int:
        """A descriptor that becomes readable when the process has ended."""
        return self._pidfd

    def _drain(self) -> None:
        stream = self._process.stderr
        if stream is None:
            return
        with stream:
            while piece := os.read(stream.fileno(), 4096):
                self._tail += piece
                del self._tail[:-STDERR_BYTES]

    def stderr_tail(self) -> str:
        """The last words of the child, at most 64 KiB, undecodable bytes replaced."""
        return bytes(self._tail).decode("utf-8", "replace")

    def attest(self) -> None:
        """There are no walls to prove."""

    def kill(self) -> None:
        """SIGKILL; harmless when it has ended already."""
        if self._pidfd >= 0 and self._process.returncode is None:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                return

    def wait(self, timeout_s: float) -> int | None:
        """Reaps the child: its exit status (negative: a signal), or None if it still runs."""
        if self._process.returncode is None:
            waiter = select.poll()
            waiter.register(self._pidfd, select.POLLIN)
            deadline_s = time.monotonic() + timeout_s
            while not waiter.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
                if time.monotonic() >= deadline_s:
                    return None
            self._process.wait()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
            self._reader.join(timeout=2.0)
        return self._process.returncode


def launch_plain(spec: EngineLaunch) -> PlainProcess:
    """Starts a plain child with nothing of this process's environment.

    Raises:
        EngineError: `engine_start_failed`.
    """
    environment = {**BASE_ENVIRONMENT, **spec.environment}
    packages = _packages_of(spec.runtime)
    if packages:
        environment["GPUGOBLIN_PACKAGES"] = packages
    kept = (spec.control_fd, spec.input_fd, spec.output_fd)
    try:
        process = subprocess.Popen(
            engine_arguments(spec),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            close_fds=True,
            pass_fds=kept,
        )
    except OSError as cause:
        raise EngineError(
            "engine_start_failed", reason=cause.strerror or str(cause), python=spec.runtime.python
        ) from cause
    try:
        limit = (spec.memory_bytes, spec.memory_bytes)
        resource.prlimit(process.pid, resource.RLIMIT_DATA, limit)
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
    except ProcessLookupError:
        pass  # it has ended already; whoever waits for it will see that
    return PlainProcess(process)
