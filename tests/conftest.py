"""What every test gets: a check that it leaves nothing behind, and a hard end if it hangs.

Owns: the leak fixture. A test that leaves a descriptor, a thread or a process open fails, with the
list of what it left. Things that end by themselves get two seconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

from tests import deadline

GRACE_S = 2.0
PATIENT_PATHS = (
    *("/dev/urandom", "/dev/null", "anon_inode:[pidfd]"),
    "/memfd:allocation fd",  # of the software card of Debian 13, which keeps one for each instance
)
QT_PATHS = ("anon_inode:[eventfd]",)
"""Of the threads with which Qt paints: they come and go as it likes. Nothing else here uses any."""


# How long an example takes says how busy the machine is, not whether the code is right. Where a
# test names no number of examples, `scripts/test --slow` tries a hundred, and every change fewer.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", parent=settings.get_profile("patient"), max_examples=30)
settings.load_profile("patient" if os.environ.get("GPUGOBLIN_SLOW") == "1" else "quick")


def pytest_configure(config: pytest.Config) -> None:
    deadline.watch(config)


def _descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    for entry in os.listdir("/proc/self/fd"):
        try:
            found[int(entry)] = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:
            continue
    return found


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.is_alive()}


def _told_children(parent: int) -> list[int]:
    """Asked of the kernel: a walk over all processes for each test takes longer than most tests."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{parent}/task"):
        with open(f"/proc/{parent}/task/{thread}/children", "rb") as told:
            found.extend(map(int, told.read().split()))
    return found


def _runs(pid: int) -> bool:
    """Has it not ended, with its parent not yet having asked how?"""
    with open(f"/proc/{pid}/stat", "rb") as told:
        return told.read().rpartition(b")")[2].split()[0] != b"Z"


def _children() -> set[int]:
    try:
        own = _told_children(os.getpid())
    except OSError:  # a thread has just ended, or a kernel that does not tell
        return _walked_children()
    found = set(own)
    waiting = own
    while waiting:
        with contextlib.suppress(OSError):  # it has just ended
            below = [pid for pid in _told_children(waiting.pop()) if _runs(pid)]
            waiting += below
            found.update(below)
    return found


def _walked_children() -> set[int]:
    found: set[int] = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if child.status() != psutil.STATUS_ZOMBIE or child.ppid() == os.getpid():
                found.add(child.pid)
    return found


def _left_behind(
    descriptors: dict[int, str], threads: set[threading.Thread], children: set[int]
) -> list[str]:
    patient = PATIENT_PATHS + (QT_PATHS if "PySide6.QtGui" in sys.modules else ())
    left = [
        f"descriptor {number} -> {target}"
        for number, target in _descriptors().items()
        if descriptors.get(number) != target and not target.startswith(patient)
        if number not in descriptors
    ]
    left += [f"thread {thread.name}" for thread in _threads() - threads]
    for pid in _children() - children:
        try:
            if any(parent.pid in children for parent in psutil.Process(pid).parents()):
                continue  # a process of one that a wider fixture holds: a browser's, say
            left.append(f"process {pid}: {' '.join(psutil.Process(pid).cmdline())[:200]}")
        except psutil.Error:
            continue
    return left


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaks a descriptor, a thread or a process.

    A module or session fixture that holds such things must be set up before this one looks, which
    pytest guarantees: wider scopes come first.
    """
    descriptors, threads, children = _descriptors(), _threads(), _children()
    yield
    deadline_s = time.monotonic() + GRACE_S
    left = _left_behind(descriptors, threads, children)
    while left and time.monotonic() < deadline_s:
        time.sleep(0.02)
        left = _left_behind(descriptors, threads, children)
    if left:
        pytest.fail("left behind: " + "; ".join(sorted(left)), pytrace=False)


@pytest.fixture
def short_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory whose path is short enough for a Unix socket (107 bytes)."""
    import shutil
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="gg-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
