"""The 16384 x 16384 float32 product over HTTPS: coordinator, lab node, one contributor's agent.

Owns: the wall time against `numpy.matmul` in memory on the same cores in the same run, with cold
input files. All parts share the two cores, so transport, checks and encryption come on top.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

import gpugoblin as gg
from benchmarks.local_product import NUMPY_RUNS, SIZE, run_client
from benchmarks.path_product import drop_cache, make_operands, numpy_seconds
from benchmarks.record import Row, row
from demo.network import Contributor, Network

ONE = (Contributor("machine-1", "owner-a", "app.main", "honest"),)


def measure() -> list[Row]:
    place = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        files = make_operands(place, SIZE)
        with Network(place, ONE, threads=2) as network:
            address = f"unix:{network.node_socket}"
            with gg.connect(address):
                ones = gg.array([[1.0, 2.0]] * 64)
                (ones @ ones.T).save(name="warm-up", executor="grid", force=True).wait()
            drop_cache(files)
            cold = run_client(address, place, "cold", "grid")
        peers = numpy_seconds(SIZE, NUMPY_RUNS, files)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    rate = 2e-9 * SIZE**3
    return [
        row(f"{SIZE}^3 float32 product over HTTPS, one contributor, cold input, synced file",
            rate / cold["wall_s"], "GF/s", ratio_bar=0.80, peer="numpy.matmul in memory",
            peer_value=rate / statistics.median(wall for wall, _ in peers),
            note="coordinator, lab node, agent and engine on the same two cores"),
    ]  # fmt: skip
