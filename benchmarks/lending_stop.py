"""From STOP to an engine that is gone, with 512 MiB resident.

Owns: that figure: the processor's engine in its sandbox, its input arena of 512 MiB written through
before it is ended. From the call of `stop` to its process reaped and its memory given back. Peer:
the same engine without walls.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from app.host.engine import Engine
from app.host.spec import Died, HostSpec
from app.sandbox.plain import installed_runtime
from app.sandbox.runtime import stage
from app.sandbox.spec import Level, Runtime
from benchmarks.record import Row, row
from gpugoblin.units import MIB

STOPS = 1000
RESIDENT_BYTES = 512 * MIB
BAR_MS = 250.0


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="lending-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        walled = sorted(_stop_ms(stage(folder), "full") for _ in range(STOPS))
    plain = sorted(_stop_ms(installed_runtime(), "none") for _ in range(max(1, STOPS // 40)))
    at = int(0.99 * STOPS)
    note = f"99th percentile of {STOPS}; median {walled[STOPS // 2]:.1f}"
    return [
        row(
            "STOP to engine gone, 512 MiB resident",
            round(walled[at], 1),
            "ms",
            bar=BAR_MS,
            better="lower",
            peer="without walls, median",
            peer_value=round(plain[len(plain) // 2], 1),
            note=note,
        )
    ]


def _stop_ms(runtime: Runtime, level: Level) -> float:
    spec = HostSpec(
        runtime=runtime, input_bytes=RESIDENT_BYTES, output_bytes=16 * MIB, threads=1,
        memory_bytes=256 * MIB, level=level, nice=0,
    )  # fmt: skip
    with Engine.start(spec) as engine:
        engine.wait_ready()
        slot = engine.inputs.allocate(RESIDENT_BYTES - MIB)
        with engine.inputs.view(slot) as view:
            page = b"\1" * MIB
            for start in range(0, len(view) - MIB + 1, MIB):
                view[start : start + MIB] = page
        start_s = time.perf_counter()
        engine.stop()
        while not any(isinstance(event, Died) for event in engine.wait(5.0)):
            continue
        return (time.perf_counter() - start_s) * 1000
