"""The thread that starts engines."""

from __future__ import annotations

import os
import threading
import time

import pytest

from app.sandbox.launcher import Launcher
from app.sandbox.limits import NICE


def _wait_until_gone(name: str) -> None:
    deadline_s = time.monotonic() + 5
    while any(thread.name == name for thread in threading.enumerate()):
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_all_starts_share_one_nice_thread_that_ends_with_the_last() -> None:
    launcher = Launcher()
    first = launcher.start(threading.get_native_id)
    second = launcher.start(threading.get_native_id)
    assert first == second != threading.get_native_id()
    assert launcher.start(lambda: os.getpriority(os.PRIO_PROCESS, first)) >= NICE
    launcher.release()
    launcher.release()
    assert launcher.running
    launcher.release()
    assert not launcher.running
    _wait_until_gone("sandbox-launcher")


def test_a_failed_start_is_raised_where_it_was_ordered_and_holds_nothing() -> None:
    launcher = Launcher()

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        launcher.start(fail)
    assert not launcher.running
    _wait_until_gone("sandbox-launcher")


def test_it_starts_again_after_its_end() -> None:
    launcher = Launcher()
    for _ in range(3):
        launcher.start(lambda: None)
        launcher.release()
    assert not launcher.running
    _wait_until_gone("sandbox-launcher")


def test_under_a_nicer_program_it_is_as_nice_as_that() -> None:
    """Less nice is root's alone: the thread would die of it, and every start wait for ever."""
    found: list[int] = []

    def program() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE + 5)
        launcher = Launcher()
        own = launcher.start(threading.get_native_id)
        found.append(os.getpriority(os.PRIO_PROCESS, own))
        launcher.release()

    thread = threading.Thread(target=program)
    thread.start()
    thread.join()
    assert found == [max(NICE + 5, os.getpriority(os.PRIO_PROCESS, 0))]
    _wait_until_gone("sandbox-launcher")
