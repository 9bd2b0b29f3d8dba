"""Measuring against a card that is computed by hand, and one real engine."""

from __future__ import annotations

import pytest

from app.bench.measure import COUNTS, Figure, engine_timer, measured
from app.engine.protocol import NumericClass
from gpugoblin.clock import SystemClock
from gpugoblin.graph.ir import Graph
from gpugoblin.units import GIB, MIB
from tests.helpers.engines import RealEngine

CLASSES = ("float32", "float16", "exact", "int8")


class Clock:
    """Moves with what is computed."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s


class Card:
    """1 TFLOP/s, a quarter of it in class exact; 100 GB/s; a kernel 10 us; a task 5 ms."""

    def __init__(self, clock: Clock, speed: float = 1.0) -> None:
        self.clock, self.speed = clock, speed
        self.largest = 0

    def time(self, graph: Graph, numeric_class: NumericClass) -> float | None:
        if numeric_class == "float16":
            return None
        seconds = 0.0
        specs = graph.specs()
        for node in graph.nodes:
            count = node.outputs[0].count
            self.largest = max(self.largest, count)
            if node.operator == "matmul":
                size = specs[node.inputs[0]].shape[0]
                seconds += 1e-6 + 2 * size**3 / 1e12 * (4 if numeric_class == "exact" else 1)
            elif node.operator == "formula":
                seconds += max(10e-6, 8 * count / 100e9)
        seconds = 5e-3 + seconds / self.speed
        self.clock.now_s += 3 * seconds
        return seconds


def figures(card: Card, memory_bytes: int = 64 * GIB, limit_s: float = 20) -> dict[str, Figure]:
    clock = card.clock
    ends_s = clock.now_s + limit_s
    found = measured(card.time, clock, memory_bytes, ends_s, CLASSES)
    return {one.what: one for one in found}


def test_what_a_card_reaches_without_the_way_to_it() -> None:
    found = figures(Card(Clock()))
    assert list(found) == [
        "memory, read and written",
        "one more kernel in a task",
        "float32 product",
        "float16 product",
        "exact product",
    ]
    assert found["memory, read and written"].value == pytest.approx(100)
    assert found["one more kernel in a task"].value == pytest.approx(10)
    assert found["float32 product"].value == pytest.approx(1, rel=0.01)
    assert found["exact product"].value == pytest.approx(0.25, rel=0.01)
    assert found["float16 product"].value is None


def test_no_more_memory_than_a_task_may_have() -> None:
    card = Card(Clock())
    found = figures(card, 64 * MIB)
    assert found["float32 product"].size == 1024
    assert found["memory, read and written"].size == COUNTS[0]
    assert 4 * card.largest <= 64 * MIB


@pytest.mark.parametrize("speed", [1.0, 1e-2, 1e-3])
def test_a_slow_card_is_measured_in_time_on_less(speed: float) -> None:
    clock = Clock()
    found = figures(Card(clock, speed))
    assert clock.now_s < 100 + 20 + 3
    assert found["float32 product"].value == pytest.approx(speed, rel=0.1)


def test_nothing_is_begun_when_the_time_is_over() -> None:
    found = figures(Card(Clock()), limit_s=0)
    assert found["exact product"] == Figure("exact product", None, "TFLOP/s", 0)


def test_a_real_engine_answers() -> None:
    clock = SystemClock()
    with RealEngine() as real:
        ready = real.engine.wait_ready()
        timer = engine_timer(real.engine, clock)
        ends_s = clock.monotonic_s() + 0.5
        found = measured(timer, clock, 4 * MIB, ends_s, ready.classes)
    assert found[2].what == "float32 product"
    assert found[2].size == 256
    assert (found[2].value or 0) > 0
