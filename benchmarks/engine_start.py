"""How long an engine takes to be ready with NumPy, how fast tensors reach it, how fast it answers.

Owns: those figures. Peer: the same engine as a plain child without walls, in the same run, started
in turn with the walled one.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from app.host.arena import Arena
from app.host.engine import Engine
from app.host.spec import HostSpec, Pong
from app.sandbox.plain import installed_runtime
from app.sandbox.runtime import stage
from app.sandbox.spec import Level, Runtime
from benchmarks.record import Row, row
from gpugoblin.units import MIB

STARTS = 15
ROUND_TRIPS = 500


def _spec(runtime: Runtime, level: Level) -> HostSpec:
    return HostSpec(
        runtime=runtime,
        input_bytes=16 * MIB,
        output_bytes=16 * MIB,
        threads=2,
        memory_bytes=256 * MIB,
        level=level,
        nice=0,
    )


def _start_ms(runtime: Runtime, level: Level) -> float:
    start_s = time.perf_counter()
    with Engine.start(_spec(runtime, level)) as engine:
        engine.wait_ready()
        return (time.perf_counter() - start_s) * 1000


def _round_trips_us(runtime: Runtime, level: Level) -> float:
    trips = []
    with Engine.start(_spec(runtime, level)) as engine:
        engine.wait_ready()
        for _ in range(ROUND_TRIPS):
            engine.ping()
            trips += [event.round_trip_s for event in engine.wait(1.0) if isinstance(event, Pong)]
    return statistics.median(trips) * 1e6


def _copy_gb_per_s() -> float:
    """A 64 MiB tensor copied into a warm slot of an input arena, as the lab node does it."""
    tensor = np.ones(16 * MIB, np.float32)
    arena = Arena(128 * MIB, "input")
    try:
        slot = arena.allocate(tensor.nbytes)
        rates = []
        for _ in range(20):
            start_s = time.perf_counter()
            arena.view(slot)[:] = tensor.view(np.uint8).data
            rates.append(tensor.nbytes / (time.perf_counter() - start_s) / 1e9)
        return statistics.median(rates)
    finally:
        arena.close()


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="gg-") as state:
        Path(state).chmod(0o755)
        runtime = stage(Path(state))
        plain_runtime = installed_runtime()
        walled, plain = [], []
        for _ in range(STARTS):  # in turn, so that the machine's moods hit both
            walled.append(_start_ms(runtime, "full"))
            plain.append(_start_ms(plain_runtime, "none"))
        walled_ms, plain_ms = statistics.median(walled), statistics.median(plain)
        trip_us = _round_trips_us(runtime, "full")
    return [
        row(
            "engine ready in the sandbox with NumPy, median",
            walled_ms,
            "ms",
            bar=200,
            better="lower",
            peer="plain child",
            peer_value=plain_ms,
        ),
        row("sandbox on top of a plain child", walled_ms - plain_ms, "ms", bar=60, better="lower"),
        row("hand-over of a tensor with the copy", _copy_gb_per_s(), "GB/s", bar=3),
        row("control round trip, median, in the sandbox", trip_us, "us", bar=50, better="lower"),
    ]
