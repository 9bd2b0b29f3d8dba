"""The 16384 x 16384 float32 product through the whole path: `gg.connect("local")`, files to file.

Owns: the wall time against `numpy.matmul` in memory on the same cores in the same run, the memory
of client and lab node, and the service's answers meanwhile. Every tile is verified, the result is
synced; the client is a process of its own, as a researcher's is.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import gpugoblin as gg
from benchmarks.memory import MemoryWatch, find_processes
from benchmarks.path_product import drop_cache, make_operands, numpy_seconds
from benchmarks.record import Row, row
from gpugoblin.units import MIB

SIZE = 16384
NUMPY_RUNS = 3

CLIENT = """
import json, sys, time
import gpugoblin as gg
address, a, b, c, name, executor = sys.argv[1:]
session = gg.connect(address)
start_s = time.perf_counter()
(gg.open(a) @ gg.open(b)).save(c, name=name, executor=executor, force=True)
job = gg.get(name).wait()
wall_s = time.perf_counter() - start_s
info = job.info
# Not getrusage: its peak is inherited from whoever started this process.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({
    "wall_s": wall_s, "tasks": info.tasks, "used": info.used,
    "product": info.verified_by.product, "client_mib":
    int(peak.split()[1]) / 1024}))
"""


def run_client(address: str, place: Path, name: str, executor: str) -> dict[str, float]:
    """One job, from a client process of its own; its figures."""
    files = [str(place / file) for file in ("a.npy", "b.npy", f"{name}.npy")]
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, address, *files, name, executor],
        check=True,
        capture_output=True,
        text=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if figures["used"] != figures["tasks"]:
        raise SystemExit(f"not every tile is verified and used: {figures}")
    (place / f"{name}.npy").unlink()
    return figures


class Latency:
    """Asks the service for the list of jobs, 20 times a second, while something else runs."""

    def __init__(self, session: gg.Session) -> None:
        self.answers_s: list[float] = []
        self._session = session
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._stop.wait(0.05):
            start_s = time.perf_counter()
            self._session.jobs()
            self.answers_s.append(time.perf_counter() - start_s)

    def __enter__(self) -> Latency:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def p99_ms(self) -> float:
        return 1000 * statistics.quantiles(self.answers_s, n=100)[98]


def measure() -> list[Row]:
    place = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        return _measure(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _measure(place: Path) -> list[Row]:
    files = make_operands(place, SIZE)
    state = place / "state"
    session = gg.connect("local", state_dir=state)
    try:
        gg.array([[1.0, 2.0]] * 64).sum().compute()  # the engine is warm, as in a session
        with (
            MemoryWatch(lambda: find_processes(str(state))) as memory,
            Latency(session) as latency,
        ):
            warm = [run_client(session.address, place, f"warm-{n}", "local") for n in range(3)]
        drop_cache(files)
        cold = run_client(session.address, place, "cold", "local")
    finally:
        session.stop_node()
    peers = numpy_seconds(SIZE, NUMPY_RUNS, files)
    numpy_s = statistics.median(wall for wall, _ in peers)
    rate = 2e-9 * SIZE**3
    warm_s = statistics.median(one["wall_s"] for one in warm)
    return [
        row(f"{SIZE}^3 float32 product, local contributor, files to synced file, warm",
            rate / warm_s, "GF/s", ratio_bar=0.85, peer="numpy.matmul in memory",
            peer_value=rate / numpy_s, note=f"median of {len(warm)}; every tile product-checked"),
        row(f"{SIZE}^3 float32 product, local contributor, cold input", rate / cold["wall_s"],
            "GF/s", ratio_bar=0.80, peer="numpy.matmul in memory", peer_value=rate / numpy_s),
        row("client, peak resident", max(one["client_mib"] for one in warm), "MiB", bar=300,
            better="lower"),
        row("lab node, peak resident in all its processes, engine included",
            memory.peak_bytes / MIB, "MiB", bar=700, better="lower", note="sum of PSS"),
        row("the service's answers while engine and checks saturate the cores, 99th percentile",
            latency.p99_ms(), "ms", bar=50, better="lower",
            note=f"{len(latency.answers_s)} requests"),
    ]  # fmt: skip
