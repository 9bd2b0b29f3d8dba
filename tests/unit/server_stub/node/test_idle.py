"""A node that nobody uses: requests and unfinished jobs keep it, silence ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from server_stub.node.idle import LOOK_PERIOD_S, IdleWatch


class ManualClock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def wall_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s


async def nothing(*_: Any) -> None:
    pass


def request(watch: IdleWatch, inside: Callable[[], None] = lambda: None) -> Awaitable[None]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        inside()

    return watch.front(app)({"type": "http"}, nothing, nothing)  # type: ignore[arg-type, return-value]


def test_a_request_starts_the_time_anew_and_a_running_one_holds_it() -> None:
    clock = ManualClock()
    watch = IdleWatch(clock, 100.0)
    clock.now_s += 60.0
    assert watch.left_s() == 40.0
    seen: list[float] = []

    def inside() -> None:
        clock.now_s += 500.0
        seen.append(watch.left_s())

    asyncio.run(request(watch, inside))  # type: ignore[arg-type]
    assert (seen, watch.left_s()) == ([100.0], 100.0)


def test_a_failing_request_is_over_too() -> None:
    clock = ManualClock()
    watch = IdleWatch(clock, 100.0)

    def fail() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(request(watch, fail))  # type: ignore[arg-type]
    clock.now_s += 100.0
    assert watch.left_s() == 0.0


def test_it_is_idle_after_the_limit_without_work() -> None:
    clock = ManualClock()
    watch = IdleWatch(clock, 100.0)
    work = [True, True, False]
    slept: list[float] = []

    async def sleep(duration_s: float) -> None:
        slept.append(duration_s)
        clock.now_s += duration_s

    async def has_work() -> bool:
        return work.pop(0)

    asyncio.run(watch.until_idle(has_work, sleep))
    assert work == []
    assert slept == [LOOK_PERIOD_S, 40.0] * 3


def test_who_comes_at_the_last_moment_keeps_it() -> None:
    clock = ManualClock()
    watch = IdleWatch(clock, 10.0)
    asked: list[float] = []

    async def sleep(duration_s: float) -> None:
        clock.now_s += duration_s

    async def has_work() -> bool:
        asked.append(clock.now_s)
        if len(asked) == 1:
            await request(watch)
        return False

    asyncio.run(watch.until_idle(has_work, sleep))
    assert asked == [60.0, 70.0]


def test_a_limit_of_nothing_is_never() -> None:
    async def wait() -> None:
        await asyncio.wait_for(IdleWatch(ManualClock(), 0.0).until_idle(never), 0.05)

    async def never() -> bool:
        raise AssertionError

    with pytest.raises(TimeoutError):
        asyncio.run(wait())
