"""What one card reaches, measured from outside of its engine within a given time.

Owns: the order of measurements, their sizes, and when to stop. Must not: start an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from app.agent.own_task import LIMIT_S, run_own
from app.bench.graphs import INPUT_BYTES, OUTPUT_BYTES, passes, products
from app.engine.protocol import NumericClass
from app.host.engine import Engine
from app.host.spec import Done, EngineTask
from gpugoblin.clock import Clock
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode

__all__ = ["CLASSES", "SIZES", "Figure", "Timer", "engine_timer", "measured"]

CLASSES: Final[tuple[NumericClass, ...]] = ("float32", "float16", "bfloat16", "exact")
SIZES: Final = (256, 1024, 4096, 8192)
"""Of square matrices: up to the largest that memory and time allow."""
COUNTS: Final = (1 << 20, 1 << 26)
"""Elements of what is read and written: the second is more than caches hold."""
STEPS: Final = 6
SMALL_STEPS: Final = 16
SMALL: Final = 256
RUNS: Final = 6
LONG_S: Final = 0.25
"""A run that takes so long is not repeated; shorter ones are until so much has passed, since an
idle card's clocks are low."""

Unit = Literal["GB/s", "TFLOP/s", "us"]
Timer = Callable[[Graph, NumericClass], float | None]
"""Seconds of one run of a graph in its class; None where the engine does not serve it."""


class Figure(Struct, frozen=True):
    """One line. `size`: extent of the matrices, or elements; 0 where nothing was measured, and
    `value` is None then."""

    what: str
    value: float | None
    unit: Unit
    size: int


def engine_timer(engine: Engine, clock: Clock) -> Timer:
    """Runs graphs in an engine that is ready and has nothing else to do.

    Raises (when called):
        EngineError, SandboxError: the engine died, and why.
    """

    def once(task: EngineTask) -> float | None:
        answer = run_own(engine, task)
        return answer.compute_s if isinstance(answer, Done) else None

    def timed(graph: Graph, numeric_class: NumericClass) -> float | None:
        given = engine.inputs.allocate(INPUT_BYTES)
        found = engine.outputs.allocate(OUTPUT_BYTES)
        engine.inputs.view(given)[:] = bytes(INPUT_BYTES)
        task = EngineTask(encode(graph), (given,), (found,), LIMIT_S, numeric_class)
        try:
            best_s = once(task)  # compiles
            began_s = clock.monotonic_s()
            for _ in range(RUNS):
                if best_s is None or clock.monotonic_s() - began_s > LONG_S:
                    return best_s
                again_s = once(task)
                best_s = None if again_s is None else min(best_s, again_s)
            return best_s
        finally:
            engine.inputs.free(given)
            engine.outputs.free(found)

    return timed


def measured(
    time: Timer, clock: Clock, memory_bytes: int, ends_s: float, classes: Sequence[str]
) -> list[Figure]:
    """All figures of a card.

    Args:
        memory_bytes: what a task may take.
        ends_s: of the clock, from when on nothing more is begun; what was not is None.
        classes: that the engine serves.
    """
    asked = [name for name in CLASSES if name in classes]
    rows = 2 + len(asked)
    found = [_traffic(time, clock, memory_bytes, ends_s, rows), _launch(time)]
    for place, name in enumerate(asked):
        left = len(asked) - place
        now_s = clock.monotonic_s()
        found.append(_product(time, clock, memory_bytes, now_s + (ends_s - now_s) / left, name))
    return found


def _step_s(
    time: Timer, make: Callable[[int], Graph], steps: int, numeric_class: NumericClass
) -> float | None:
    """Seconds of one step; None where there is no answer, or none that is above the noise. Many
    come first: a card that had nothing to do is slow, and would be taken for a faster one."""
    many_s, few_s = (time(make(1 + more), numeric_class) for more in (steps, 0))
    if few_s is None or many_s is None or many_s <= few_s:
        return None
    return (many_s - few_s) / steps


def _traffic(time: Timer, clock: Clock, memory_bytes: int, ends_s: float, rows: int) -> Figure:
    best = Figure("memory, read and written", None, "GB/s", 0)
    now_s = clock.monotonic_s()
    own_ends_s = now_s + (ends_s - now_s) / rows
    for count in COUNTS:
        began_s = clock.monotonic_s()
        if 4 * 4 * count > memory_bytes:
            break
        step_s = _step_s(time, partial(passes, count), STEPS, "float32")
        if step_s is not None:
            best = Figure(best.what, 8.0 * count / step_s / 1e9, "GB/s", count)
        took_s = clock.monotonic_s() - began_s
        if clock.monotonic_s() + took_s * (COUNTS[-1] // COUNTS[0]) > own_ends_s and (
            step_s is None or step_s * COUNTS[-1] / COUNTS[0] > LONG_S
        ):
            break
    return best


def _launch(time: Timer) -> Figure:
    step_s = _step_s(time, partial(passes, SMALL), SMALL_STEPS, "float32")
    value = None if step_s is None else step_s * 1e6
    return Figure("one more kernel in a task", value, "us", SMALL if step_s else 0)


def _product(
    time: Timer, clock: Clock, memory_bytes: int, ends_s: float, name: NumericClass
) -> Figure:
    best = Figure(f"{name} product", None, "TFLOP/s", 0)
    took_s = step_s = 0.0
    last = SIZES[0]
    for size in SIZES:
        # What it takes to write and to compile stays; what it takes to run grows by the cube.
        runs = 2 * step_s * (size / last) ** 3 * (STEPS + 2)
        if 6 * 4 * size**2 > memory_bytes or clock.monotonic_s() + took_s + runs > ends_s:
            break
        began_s = clock.monotonic_s()
        found_s = _step_s(time, partial(products, size, name), STEPS, name)
        took_s, last = clock.monotonic_s() - began_s, size
        if found_s is None:
            continue
        step_s = found_s
        rate = 2.0 * size**3 / step_s / 1e12
        if best.value is None or rate > best.value:
            best = Figure(best.what, rate, "TFLOP/s", size)
    return best
