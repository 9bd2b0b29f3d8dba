"""The 16384 x 16384 float32 product over HTTPS: coordinator, lab node, one contributor's agent.

    python -m benchmarks.grid_product --size 8192

Owns: the wall time against `numpy.matmul` in memory on the same cores in the same run, with cold
input files. All parts share the two cores, so transport, checks and encryption come on top. As a
program of its own it prints the processor time of every process, which other work on the machine
hardly changes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import gpugoblin as gg
from benchmarks.local_product import NUMPY_RUNS, SIZE, run_client
from benchmarks.path_product import drop_cache, make_operands, numpy_seconds
from benchmarks.processor_time import by_role, since
from benchmarks.record import Row, row
from demo.network import Contributor, Network
from gpugoblin.units import MIB

ONE = (Contributor("machine-1", "owner-a", "app.main", "honest"),)


def run(size: int, numpy_runs: int) -> dict[str, Any]:
    """Wall and processor times of one product over the network, and of NumPy's."""
    place = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        files = make_operands(place, size)
        with Network(place, ONE, threads=2, slot_bytes=256 * MIB) as network:
            address = f"unix:{network.node_socket}"
            with gg.connect(address):
                ones = gg.array([[1.0, 2.0]] * 64)
                (ones @ ones.T).save(name="warm-up", executor="grid", force=True).wait()
            drop_cache(files)
            before = by_role(str(place))
            cold = run_client(address, place, "cold", "grid")
            cpu_s = since(before, by_role(str(place)))
        peers = numpy_seconds(size, numpy_runs, files)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return {
        "wall_s": cold["wall_s"],
        "tasks": cold["tasks"],
        "cpu_s": cpu_s,
        "all_cpu_s": sum(cpu_s.values()),
        "numpy_s": statistics.median(wall for wall, _ in peers),
        "numpy_cpu_s": statistics.median(cpu for _, cpu in peers),
    }


def measure() -> list[Row]:
    figures = run(SIZE, NUMPY_RUNS)
    rate = 2e-9 * SIZE**3
    return [
        row(f"{SIZE}^3 float32 product over HTTPS, one contributor, cold input, synced file",
            rate / figures["wall_s"], "GF/s", ratio_bar=0.80, peer="numpy.matmul in memory",
            peer_value=rate / figures["numpy_s"],
            note="coordinator, lab node, agent and engine on the same two cores; processor time of"
            f" all {figures['all_cpu_s']:.0f} s, of NumPy {figures['numpy_cpu_s']:.0f} s"),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--numpy-runs", type=int, default=1)
    given = parser.parse_args()
    print(json.dumps(run(given.size, given.numpy_runs), indent=2))


if __name__ == "__main__":
    main()
