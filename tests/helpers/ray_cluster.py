"""A real Ray cluster on this machine for tests and benchmarks: a head and machines, as commands do.

Owns: the processes of `ray start --block`, each with all that it starts, ended by their ids. Needs
the package `ray` in this environment; it is not imported here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

__all__ = ["HAS_RAY", "RayCluster", "wait_until"]

HAS_RAY = importlib.util.find_spec("ray") is not None
STORE_BYTES = 100_000_000


def wait_until(condition: Callable[[], object], limit_s: float, what: str) -> float:
    """How long it took, in seconds."""
    start_s = time.monotonic()
    while not condition():
        if time.monotonic() - start_s > limit_s:
            raise AssertionError(f"after {limit_s} s still not: {what}")
        time.sleep(0.05)
    return time.monotonic() - start_s


class RayCluster:
    """A head without processors, and machines with one each. A context manager."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="ggr"))
        self.head: subprocess.Popen[bytes] | None = None
        self.machines: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self) -> RayCluster:
        try:
            self.start_head()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.place / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("ray")), "start", "--block",
                    "--disable-usage-stats", "--node-ip-address=127.0.0.1",
                    f"--object-store-memory={STORE_BYTES}", *words,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            )  # fmt: skip

    def start_head(self) -> None:
        """Returns when it takes connections."""
        self.head = self._start(
            "--head", f"--port={self.port}", "--num-cpus=0", "--include-dashboard=false",
            f"--temp-dir={self.place / 'ray'}",
        )  # fmt: skip
        wait_until(self._answers, 60.0, "the head answers")

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False

    def add(self) -> int:
        """One more machine; its number."""
        self.machines.append(self._start(f"--address={self.address}", "--num-cpus=1"))
        return len(self.machines) - 1

    def kill(self, machine: int) -> None:
        """As a power cut: everything of the machine at once."""
        _kill(self.machines[machine])

    def kill_head(self) -> None:
        if self.head is not None:
            _kill(self.head)

    def workers(self, machine: int) -> list[int]:
        """Process ids of our actors on a machine."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.machines[machine].pid).children(recursive=True)
            return [one.pid for one in children if _is_hand(one)]
        return []

    def close(self) -> None:
        for process in [*self.machines, self.head]:
            if process is not None:
                _kill(process)
        shutil.rmtree(self.place, ignore_errors=True)


def _is_hand(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return "ray::Hand" in " ".join(process.cmdline())
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    family = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
    psutil.wait_procs(family, timeout=10.0)
