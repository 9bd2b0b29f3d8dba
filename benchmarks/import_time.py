"""How long `import gpugoblin` takes, and what it must not bring along.

Owns: that figure. Peer: `import numpy`, in the same run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.record import Row, row

RUNS = 15
UNWANTED = ("torch", "PySide6", "zarr", "starlette", "uvicorn", "server_stub", "app", "numpy")


def _import_ms(statement: str) -> float:
    program = (
        "import time, sys; start = time.perf_counter(); "
        f"{statement}; print((time.perf_counter() - start) * 1000)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def measure() -> list[Row]:
    ours = statistics.median(_import_ms("import gpugoblin") for _ in range(RUNS))
    first = statistics.median(
        _import_ms("import gpugoblin as gg; gg.open; gg.connect") for _ in range(RUNS)
    )
    numpy = statistics.median(_import_ms("import numpy") for _ in range(RUNS))
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", "import gpugoblin, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    unwanted = [name for name in UNWANTED if name in loaded]
    return [
        row(
            "import gpugoblin",
            ours,
            "ms",
            bar=300,
            better="lower",
            peer="import numpy",
            peer_value=numpy,
            note=f"unwanted modules loaded: {', '.join(unwanted) or 'none'}",
        ),
        row(
            "import gpugoblin, then its first use (session, arrays, NumPy)",
            first,
            "ms",
            better="lower",
            peer="import numpy",
            peer_value=numpy,
        ),
    ]
