"""What a stop throws away is the computing of the task that ran, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from app.agent.events import EngineDone, EngineReady, EngineStopped
from app.agent.losses import Counted, Losses
from tests.unit.app.agent.test_card_engine import L1, L2, Bench, product, read


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Engine:
    def __init__(self) -> None:
        self.said: list[str] = []

    def freeze(self) -> None:
        self.said.append("freeze")

    def thaw(self) -> None:
        self.said.append("thaw")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_only_the_task_that_runs_is_lost(clock: Clock) -> None:
    losses = Losses(clock)
    losses.begin()
    clock.now_s += 2.0
    losses.begin()  # one more is queued behind it
    clock.now_s += 1.0
    losses.end(goes_on=True)
    clock.now_s += 0.25
    assert losses.stop() == 0.25


def test_an_engine_without_a_task_loses_nothing(clock: Clock) -> None:
    losses = Losses(clock)
    clock.now_s += 5.0
    assert losses.stop() == 0.0
    losses.begin()
    clock.now_s += 3.0
    losses.end(goes_on=False)
    clock.now_s += 5.0
    assert losses.stop() == 0.0


def test_a_stop_is_counted_once(clock: Clock) -> None:
    losses = Losses(clock)
    losses.begin()
    clock.now_s += 3.0
    assert (losses.stop(), losses.stop()) == (3.0, 0.0)


def test_time_in_which_it_is_frozen_is_not_lost(clock: Clock) -> None:
    losses, engine = Losses(clock), Engine()
    counted = Counted(engine, losses)
    losses.begin()
    for _ in range(4):  # the pulses of a duty
        clock.now_s += 0.15
        counted.freeze()
        counted.freeze()
        clock.now_s += 0.35
        counted.thaw()
    clock.now_s += 0.1
    counted.freeze()
    clock.now_s += 60.0
    assert losses.stop() == pytest.approx(0.7)
    assert engine.said.count("thaw") == 4


def test_a_task_that_begins_while_it_is_frozen(clock: Clock) -> None:
    losses = Losses(clock)
    losses.freeze()
    losses.begin()
    clock.now_s += 9.0
    losses.thaw()
    clock.now_s += 1.0
    assert losses.stop() == 1.0


def test_a_card_that_stops_tells_what_it_throws_away() -> None:
    bench = Bench("", "hang", "hang")

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), read)
        await bench.until(EngineDone)
        bench.engine.submit(L2, product(), read)
        while not bench.engine._running:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        bench.engine.stop()
        await bench.until(EngineStopped)

    bench.run(script)
    (lost_s,) = bench.lost_s
    assert lost_s >= 0.1


def test_a_card_that_stops_without_a_task_throws_nothing_away() -> None:
    bench = Bench()

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), read)
        await bench.until(EngineDone)
        bench.engine.stop()
        await bench.until(EngineStopped)

    bench.run(script)
    assert bench.lost_s == [0.0]
    assert [type(each) for each in bench.events].count(EngineStopped) == 1
