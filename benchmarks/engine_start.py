"""How long an engine takes to be ready with NumPy, how fast tensors reach it, how fast it answers.

Owns: those figures. Peers: the same engine as a plain child without walls, started in turn with the
walled one; for the round trip, two bare Python processes that echo bytes over the same kind of
socket: what the kernel takes to wake a process on this machine, which no engine can go below.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
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

ECHO = """
import os, sys
channel = int(sys.argv[1])
while datagram := os.read(channel, 16385):
    os.write(channel, datagram)
"""


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


def _bare_round_trips_us() -> float:
    """The median of what two Python processes take to pass 48 bytes there and back."""
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", ECHO, str(other.fileno())], pass_fds=(other.fileno(),)
    )
    other.close()
    trips = []
    with own:
        for _ in range(ROUND_TRIPS + 1):
            start_s = time.perf_counter()
            os.write(own.fileno(), bytes(48))
            os.read(own.fileno(), 64)
            trips.append(time.perf_counter() - start_s)
    child.wait()
    return statistics.median(trips[1:]) * 1e6  # the first waits for the interpreter


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
        bare_us = _bare_round_trips_us()
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
        row(
            "control round trip, median, in the sandbox",
            trip_us,
            "us",
            bar=50,
            better="lower",
            peer="two bare processes on the same kind of socket",
            peer_value=bare_us,
        ),
    ]
