"""A lab node on a Ray cluster of this machine: one and two machines beside the node's own engine.

Owns: rates per core of the same product by `local` and by `ray`, what the kill of a worker costs,
and how fast the checks are. Each machine of the cluster has one processor, as the node's own engine
has one thread here. Needs the package `ray`.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import gpugoblin as gg
from benchmarks.record import Row, row
from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode
from gpugoblin.units import MIB
from server_stub.node.work import BlobInput, BlobOutput, Check, Checked
from server_stub.node.workers.checks import CheckDesk
from tests.helpers.ray_cluster import HAS_RAY, RayCluster, wait_until
from tests.helpers.real_node import RealNode

SIZE = 5120
RUNS = 5
MEMORY_BYTES = 512 * MIB
SLOT_BYTES = 32 * MIB


def measure() -> list[Row]:
    if not HAS_RAY:
        raise SystemExit("node_ray: install the extra `ray` first")
    place = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        return [*_products(place), _checks(place)]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _products(place: Path) -> list[Row]:
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        np.save(place / f"{name}.npy", rng.standard_normal((SIZE, SIZE), dtype=np.float32))
    with RayCluster() as cluster:
        cluster.add()
        settings = {
            "executor": "local, ray", "ray_address": cluster.address, "engine_threads": 1,
            "engine_memory_bytes": MEMORY_BYTES, "slot_bytes": SLOT_BYTES, "engine_level": "full",
            "ray_worker_dir": str(place / "machines"),
        }  # fmt: skip
        with RealNode(place / "node", **settings) as node:
            session = gg.connect(f"unix:{node.settings.socket_path}")
            node.await_seats(1)
            for executor in ("local", "ray"):
                _seconds(place, executor)  # engines are warm
            pairs = [(_seconds(place, "local"), _seconds(place, "ray")) for _ in range(RUNS)]
            cluster.add()
            node.await_seats(2)
            _seconds(place, "ray")
            both = [_seconds(place, "ray") for _ in range(RUNS)]
            killed = _seconds(place, "ray", lambda job: _kill_one(cluster, job))
            session.close()
    rate = 2e-9 * SIZE**3
    local = rate / statistics.median(pair[0] for pair in pairs)
    one = rate / statistics.median(pair[1] for pair in pairs)
    two_s = statistics.median(both)
    note = f"median of {RUNS}; {SLOT_BYTES // MIB} MiB tiles, walls full, every tile checked"
    what = f"{SIZE}^3 float32 product"
    return [
        row(f"{what}, Ray, 1 machine of 1 core", one, "GF/s", ratio_bar=0.85,
            peer="local engine, 1 thread", peer_value=local, note=note),
        row(f"{what}, Ray, 2 machines of 1 core, per core", rate / two_s / 2, "GF/s",
            ratio_bar=0.85, peer="local engine, 1 thread", peer_value=local,
            note=f"{note}; the node's checks share the two cores"),
        row(f"{what}, Ray, time lost by killing a worker of two", killed - two_s, "s",
            better="lower", note=f"of {two_s:.1f} s; its running tasks are computed again"),
    ]  # fmt: skip


def _seconds(place: Path, executor: str, meanwhile: Any = None) -> float:
    name = f"{executor}-{time.monotonic_ns()}"
    result = place / f"{name}.npy"
    product = gg.open(place / "a.npy") @ gg.open(place / "b.npy")
    start_s = time.perf_counter()
    product.save(result, name=name, executor=executor, force=True)
    job = gg.get(name)
    helper = threading.Thread(target=meanwhile, args=(job,)) if meanwhile else None
    if helper is not None:
        helper.start()
    info = job.wait().info
    took_s = time.perf_counter() - start_s
    if helper is not None:
        helper.join()
    if info.used != info.tasks:
        raise SystemExit(f"not every tile is verified and used: {info}")
    result.unlink()
    return took_s


def _kill_one(cluster: RayCluster, job: Any) -> None:
    wait_until(lambda: job.refresh().used >= 2, 120.0, "some tiles are there")
    for pid in cluster.workers(1):
        os.kill(pid, signal.SIGKILL)


def _checks(place: Path) -> Row:
    """The product check of one tile in one check worker, its bytes in the system's cache."""
    rng = np.random.default_rng(2)
    size = 4096
    a = rng.standard_normal((size, size), dtype=np.float32)
    b = rng.standard_normal((size, size), dtype=np.float32)
    c: np.ndarray[Any, np.dtype[np.float32]] = a @ b
    store = BlobStore(place / "store", 0)
    shape = (size, size)
    blobs = [
        BlobInput(str(store.put(one.tobytes())), one.nbytes, "float32", shape) for one in (a, b, c)
    ]
    item = Check("check.1.l", _product_graph(size), "float32", (blobs[0], blobs[1]), (blobs[2],),
                 (BlobOutput("float32", shape),), False)  # fmt: skip
    desk = CheckDesk(store)
    times = []
    for _ in range(6):
        start_s = time.thread_time()
        reply = desk.do(item)
        times.append(time.thread_time() - start_s)
        if not isinstance(reply, Checked) or not reply.accepted:
            raise SystemExit(f"an honest product is refused: {reply}")
    moved = sum(one.nbytes for one in blobs)
    return row(
        f"product check of a {size}^3 tile, operands and result", moved / 1e9
        / statistics.median(times[1:]), "GB/s a core", bar=3.0,
        note="one thread's processor time, cache-warm, right operand's projections kept",
    )  # fmt: skip


def _product_graph(size: int) -> bytes:
    builder = GraphBuilder()
    left = builder.input(TensorSpec("float32", (size, size)))
    right = builder.input(TensorSpec("float32", (size, size)))
    return encode(builder.build((builder.add("matmul", (left, right)),)))
