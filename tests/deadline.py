"""A hard end for a test that hangs where its time limit cannot reach.

Owns: the watcher of the test that runs. pytest-timeout raises once in the main thread; a test that
then hangs while it is cleaned up, or in a call that swallows the exception, would hold the whole
run. The watcher prints every thread's stack, ends the test's processes and leaves: the run reports
the test as failed and goes on in a new worker.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Generator

import psutil
import pytest

DEFAULT_LIMIT_S = 120.0
# What a test may use for cleaning up after its limit has struck.
CLEANING_S = 60.0
POLL_S = 1.0


class Deadline:
    """Watches one test at a time in a daemon thread."""

    def __init__(self, stderr: int) -> None:
        self._stderr = stderr
        self._due_s: float | None = None
        self._name = ""
        threading.Thread(target=self._watch, name="test-deadline", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(POLL_S)
            due_s = self._due_s
            if due_s is not None and time.monotonic() > due_s:
                self._leave()

    def _leave(self) -> None:
        os.write(self._stderr, f"\n{self._name} hangs; it is ended. Stacks:\n".encode())
        faulthandler.dump_traceback(file=self._stderr, all_threads=True)
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                os.write(self._stderr, f"child {child.pid}: {child.cmdline()}\n".encode()[:500])
                child.kill()
        os._exit(3)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        marker = item.get_closest_marker("timeout")
        limit_s = float(marker.args[0]) if marker and marker.args else DEFAULT_LIMIT_S
        self._name, self._due_s = item.nodeid, time.monotonic() + limit_s + CLEANING_S
        try:
            return (yield)
        finally:
            self._due_s = None

    def pytest_unconfigure(self) -> None:
        # A thread that a test left would hold the interpreter at its end. A worker of pytest-xdist
        # waits there for the others, and is ended by the process that started it.
        if "PYTEST_XDIST_WORKER" not in os.environ:
            self._name, self._due_s = "the end of the run", time.monotonic() + CLEANING_S


def watch(config: pytest.Config) -> None:
    """Starts the watcher for this process. stderr is taken before pytest redirects it."""
    assert sys.__stderr__ is not None
    config.pluginmanager.register(Deadline(os.dup(sys.__stderr__.fileno())), "test-deadline")
