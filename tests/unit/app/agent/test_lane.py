"""One thing after another, on one thread, and an end that loses nothing that was asked before."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from app.agent.lane import Lane


def test_calls_run_in_order_on_one_thread() -> None:
    lane = Lane("test-lane")
    seen: list[tuple[int, str]] = []

    def note(number: int) -> int:
        seen.append((number, threading.current_thread().name))
        return number

    futures = [lane.call(lambda number=number: note(number)) for number in range(20)]
    assert [future.result(5) for future in futures] == list(range(20))
    assert seen == [(number, "test-lane") for number in range(20)]
    lane.end()
    assert lane.join(5)


def test_an_exception_goes_to_its_caller_only() -> None:
    lane = Lane("test-lane")
    bad, good = lane.call(lambda: 1 // 0), lane.call(lambda: 7)
    with pytest.raises(ZeroDivisionError):
        bad.result(5)
    assert good.result(5) == 7
    lane.end()
    assert lane.join(5)


def test_the_end_comes_after_what_was_asked_and_takes_nothing_more() -> None:
    lane = Lane("test-lane")
    seen: list[str] = []
    gate = threading.Event()
    lane.call(lambda: gate.wait(5))
    before = lane.call(lambda: seen.append("asked"))
    lane.end(lambda: seen.append("last"))
    lane.end(lambda: seen.append("again"))
    after = lane.call(lambda: seen.append("late"))
    gate.set()
    before.result(5)
    with pytest.raises(CancelledError):
        after.result(5)
    assert lane.join(5)
    assert seen == ["asked", "last"]


def test_a_lane_that_never_ran_has_no_thread_and_no_last_call() -> None:
    lane = Lane("test-lane")
    seen: list[str] = []
    lane.end(lambda: seen.append("last"))
    assert lane.join(0)
    assert seen == []
