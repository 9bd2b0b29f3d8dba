"""A product with operands and result on disk, through the node's own workers, beside NumPy.

    python benchmarks/path_product.py [--size 16384] [--level full] [--numpy-runs 3] [--json FILE]

Measures the part of the path that lies in the lab node: planning, reading, hashing, the engine, the
check of every tile, writing and syncing. The same cores then do `numpy.matmul` in memory. Memory is
the proportional set size (PSS) of every process of the node, engine included, sampled once a
second; shared pages count once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.memory import MemoryWatch, descendants
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode
from gpugoblin.plan.spec import ArrayRegion, PlannedTask
from gpugoblin.plan.tiles import ProductPlan, plan_product
from gpugoblin.units import MIB
from server_stub.node.arrays import create_result, describe, publish
from server_stub.node.pool import PoolConfig, WorkerPool
from server_stub.node.work import (
    ArrayFile,
    BlobInput,
    BlobOutput,
    Box,
    Compute,
    Computed,
    Input,
    RegionInput,
    RegionOutput,
)

OUTSTANDING = 3


def make_operands(place: Path, size: int) -> tuple[ArrayFile, ArrayFile]:
    """Two files of normal numbers, written in bands."""
    random = np.random.default_rng(20261130)
    made = []
    for name in ("a", "b"):
        path = str(place / f"{name}.npy")
        array = np.lib.format.open_memmap(path, "w+", np.float32, (size, size))
        for first in range(0, size, 1024):
            band = array[first : first + 1024]
            band[:] = random.standard_normal(band.shape, dtype=np.float32)
        array.flush()
        del array
        made.append(describe("npy", path))
    os.sync()
    return made[0], made[1]


def drop_cache(files: tuple[ArrayFile, ...]) -> None:
    """Takes the operands out of the page cache."""
    for file in files:
        descriptor = os.open(file.path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def item(
    task: PlannedTask, files: tuple[ArrayFile, ...], result: ArrayFile, made: dict[int, Computed]
) -> Compute:
    inputs: list[Input] = []
    for source, spec in zip(task.inputs, task.graph.inputs, strict=True):
        if isinstance(source, ArrayRegion):
            box = Box(source.region.start, source.region.stop)
            inputs.append(RegionInput(files[source.array], box))
        else:
            blob = made[source.task].output_blobs[source.output]
            inputs.append(BlobInput(blob, spec.nbytes, spec.dtype, spec.shape))
    place, spec = task.outputs[0], task.graph.output_specs()[0]
    output: RegionOutput | BlobOutput = BlobOutput(spec.dtype, spec.shape)
    if place.array is not None:
        box = Box(place.region.start, place.region.stop)
        output = RegionOutput(result, box, spec.dtype, spec.shape)
    return Compute(
        f"task.{task.index}", encode(task.graph), "float32", tuple(inputs), (output,),
        task.verify, task.memory_bound_bytes, task.flops,
    )  # fmt: skip


async def run_plan(
    pool: WorkerPool, plan: ProductPlan, files: tuple[ArrayFile, ...], result: ArrayFile
) -> float:
    """Seconds of engine work; raises when any tile was not verified."""
    outstanding = asyncio.Semaphore(OUTSTANDING)
    made: dict[int, Computed] = {}
    ready = [asyncio.Event() for _ in range(plan.count)]

    async def one(index: int) -> None:
        task = plan.task(index)
        for before in task.depends_on:
            await ready[before].wait()
        reply = await pool.run(item(task, files, result, made))
        if not isinstance(reply, Computed) or not reply.verified:
            raise SystemExit(f"tile {index} was not verified: {reply}")
        made[index] = reply
        ready[index].set()

    async def paced(index: int) -> None:
        try:
            await one(index)
        finally:
            outstanding.release()

    async with asyncio.TaskGroup() as group:
        for index in range(plan.count):
            await outstanding.acquire()
            group.create_task(paced(index))
    return sum(reply.compute_s for reply in made.values())


def cpu_s(pids: list[int]) -> float:
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / ticks


async def run_once(
    place: Path, size: int, config: PoolConfig, files: tuple[ArrayFile, ArrayFile]
) -> dict[str, Any]:
    build = GraphBuilder()
    operands = [build.input(TensorSpec("float32", (size, size))) for _ in range(2)]
    graph = build.build([build.add("matmul", operands)])
    plan = plan_product(graph, config.limits())
    pool = WorkerPool(config)
    await pool.start()
    try:
        # The engine starts with the first task: not part of a warm figure.
        small = plan_product(_small(), config.limits())
        warm = create_result("raw", str(place / "warm"), "float32", (256, 256))
        await run_plan(pool, small, tuple(_part(file) for file in files), warm)
        result = create_result("npy", str(place / "c.npy"), "float32", (size, size), overwrite=True)
        before_cpu_s = cpu_s(pool.processes())
        before_all_s = cpu_s(descendants(os.getpid()))
        began_s = time.perf_counter()
        with MemoryWatch(lambda: descendants(os.getpid())) as memory:
            engine_s = await run_plan(pool, plan, files, result)
            wall_s = time.perf_counter() - began_s
        node_cpu_s = cpu_s(pool.processes()) - before_cpu_s
        all_cpu_s = cpu_s(descendants(os.getpid())) - before_all_s
        publish(result, str(place / "c.npy"), overwrite=True)
    finally:
        await pool.stop()
    return {
        "wall_s": wall_s,
        "engine_s": engine_s,
        "worker_cpu_s": node_cpu_s,
        "all_cpu_s": all_cpu_s,
        "peak_pss_mib": memory.peak_bytes / MIB,
        "gflops": 2e-9 * size**3 / wall_s,
    }


def _small() -> Any:
    build = GraphBuilder()
    operands = [build.input(TensorSpec("float32", (256, 256))) for _ in range(2)]
    return build.build([build.add("matmul", operands)])


def _part(file: ArrayFile) -> ArrayFile:
    """The first bytes of a file as a small raw array."""
    return ArrayFile("raw", file.path, "float32", (256, 256), "", file.offset_bytes)


NUMPY = """
import sys, time, numpy as np
size, runs = int(sys.argv[1]), int(sys.argv[2])
a, b = np.load(sys.argv[3]), np.load(sys.argv[4])
c = np.empty((size, size), np.float32)
np.matmul(a[:512], b, out=c[:512])
for _ in range(runs):
    began, began_cpu = time.perf_counter(), time.process_time()
    np.matmul(a, b, out=c)
    print(time.perf_counter() - began, time.process_time() - began_cpu, flush=True)
"""


def numpy_seconds(
    size: int, runs: int, files: tuple[ArrayFile, ArrayFile]
) -> list[tuple[float, float]]:
    """`numpy.matmul` in memory on all cores, in a process of its own: (wall, CPU) of each run."""
    command = [sys.executable, "-c", NUMPY, str(size), str(runs), files[0].path, files[1].path]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    pairs = [line.split() for line in done.stdout.splitlines()]
    return [(float(wall), float(cpu)) for wall, cpu in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--level", choices=("full", "reduced", "none"), default="full")
    parser.add_argument("--numpy-runs", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--cache-mib", type=int, default=384)
    parser.add_argument("--place", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=given.place))
    try:
        files = make_operands(place, given.size)
        level: Literal["full", "reduced", "none"] = given.level
        config = PoolConfig(
            state_dir=place, blob_root=place / "blobs", level=level,
            engine_threads=len(os.sched_getaffinity(0)), cache_bytes=given.cache_mib * MIB,
            engine_memory_bytes=512 * MIB,
        )  # fmt: skip
        if given.cold:
            drop_cache(files)
        figures = asyncio.run(run_once(place, given.size, config, files))
        peers = numpy_seconds(given.size, given.numpy_runs, files) if given.numpy_runs else []
    finally:
        shutil.rmtree(place)
    if peers:
        figures["numpy_s"] = statistics.median(wall for wall, _ in peers)
        figures["numpy_cpu_s"] = statistics.median(cpu for _, cpu in peers)
        figures["ratio"] = figures["numpy_s"] / figures["wall_s"]
        # On a machine that others use as well, only this one says something.
        figures["cpu_ratio"] = figures["numpy_cpu_s"] / figures["all_cpu_s"]
    text = json.dumps(figures, indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text)


if __name__ == "__main__":
    main()
