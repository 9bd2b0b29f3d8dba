"""Large linear algebra out of core: files to files by `gg.connect("local")`, beside Dask array.

    python benchmarks/large_algebra.py

An 8192^2 Cholesky factor, and the rank-64 SVD of a 10^6 x 10^3 matrix. Every task is verified; the
node and its engine may take 256 MiB for a task. Dask runs the same on the same cores, with its
thread scheduler, from the same files into files, and verifies nothing.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpugoblin as gg
from benchmarks.memory import MemoryWatch, find_processes
from benchmarks.record import Row, row
from gpugoblin.units import MIB

RANK = 64
BLOCK = 1024
ROWS = 8192
"""Of one piece, where a matrix is made or compared."""


def measure(side: int = 8192, rows: int = 1_000_000, columns: int = 1000) -> list[Row]:
    place = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        matrix = _definite(place / "a.npy", side)
        tall = _low_rank(place / "t.npy", rows, columns)
        state = place / "state"
        session = gg.connect("local", state_dir=state, memory_bytes=256 * MIB)
        try:
            with MemoryWatch(lambda: find_processes(str(state))) as memory:
                factor_s = _timed(lambda: _factor(matrix, place / "l.npy"))
                svd_s = _timed(lambda: _singular(tall, place))
        finally:
            session.stop_node()
        dask_factor_s = _timed(lambda: _dask_factor(matrix, place / "d.npy"))
        dask_svd_s = _timed(lambda: _dask_singular(tall, place))
        wrong_factor = _factor_error(matrix, place / "l.npy")
        wrong_values = _value_error(place / "s.npy", place / "exact.npy")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return [
        row(f"{side}^2 Cholesky, out of core, every task verified", round(1 / factor_s, 5), "1/s",
            ratio_bar=1.2, peer="Dask array, not verified", peer_value=round(1 / dask_factor_s, 5),
            note=f"{factor_s:.1f} s against {dask_factor_s:.1f} s"),
        row(f"the factor, |L L^T - A| / |A| in sampled rows of {side}^2", wrong_factor, "",
            bar=1e-5, better="lower"),
        row(f"rank-{RANK} SVD of {rows} x {columns}, out of core, every task verified",
            round(1 / svd_s, 5), "1/s", ratio_bar=1.2, peer="Dask svd_compressed, not verified",
            peer_value=round(1 / dask_svd_s, 5), note=f"{svd_s:.1f} s against {dask_svd_s:.1f} s"),
        row(f"singular values of {rows} x {columns}, largest relative error", wrong_values, "",
            bar=1e-5, better="lower", note="against the values that the matrix was made with"),
        row("lab node during both, peak resident in all its processes, engine included",
            memory.peak_bytes / MIB, "MiB", bar=1024, better="lower", note="sum of PSS"),
    ]  # fmt: skip


def _timed(run: Callable[[], None]) -> float:
    start_s = time.perf_counter()
    run()
    return time.perf_counter() - start_s


def _definite(path: Path, side: int) -> Path:
    """A symmetric positive definite matrix, made in pieces: decaying off the diagonal."""
    target = np.lib.format.open_memmap(path, "w+", np.float32, (side, side))
    line = np.arange(side)
    for start in range(0, side, ROWS // 8):
        part = line[start : start + ROWS // 8, None] - line[None, :]
        target[start : start + ROWS // 8] = np.cos(0.37 * part) * np.exp(-np.abs(part) / 50.0)
        target[start : start + ROWS // 8] += 0.5 * (part == 0)
    target.flush()
    return path


def _low_rank(path: Path, rows: int, columns: int) -> Path:
    """U diag(s) V with s falling from 1,000 to 1: its singular values are known."""
    random = np.random.default_rng(0)
    values = np.geomspace(1000.0, 1.0, RANK)
    right = np.linalg.qr(random.standard_normal((columns, RANK)))[0].T
    gram = np.zeros((RANK, RANK))
    for start in range(0, rows, ROWS):
        part = np.random.default_rng(start + 1).standard_normal((min(ROWS, rows - start), RANK))
        gram += part.T @ part
    whiten = np.linalg.inv(np.linalg.cholesky(gram)).T
    target = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    for start in range(0, rows, ROWS):
        part = np.random.default_rng(start + 1).standard_normal((min(ROWS, rows - start), RANK))
        target[start : start + ROWS] = (part @ whiten * values) @ right
    target.flush()
    np.save(path.parent / "exact.npy", values)
    return path


def _factor(matrix: Path, result: Path) -> None:
    gg.linalg.cholesky(gg.open(matrix)).save(result, name="factor").wait()


def _singular(matrix: Path, place: Path) -> None:
    found = gg.linalg.svd_lowrank(gg.open(matrix), RANK, iterations=1)
    left, values, _ = gg.compute(found.U, found.S, found.Vh)
    np.save(place / "u.npy", left)
    np.save(place / "s.npy", values)


def _dask_factor(matrix: Path, result: Path) -> None:
    da: Any = importlib.import_module("dask.array")
    source = np.load(matrix, mmap_mode="r")
    target = np.lib.format.open_memmap(result, "w+", np.float32, source.shape)
    factor = da.linalg.cholesky(da.from_array(source, (BLOCK, BLOCK)), lower=True)
    da.store(factor, target)
    target.flush()


def _dask_singular(matrix: Path, place: Path) -> None:
    dask: Any = importlib.import_module("dask")
    da: Any = importlib.import_module("dask.array")
    source: Any = da.from_array(np.load(matrix, mmap_mode="r"), (ROWS, -1))
    found = da.linalg.svd_compressed(source, RANK, n_oversamples=16, n_power_iter=1)
    left, values, _ = dask.compute(*found)
    np.save(place / "du.npy", left)
    np.save(place / "ds.npy", values)


def _factor_error(matrix: Path, result: Path) -> float:
    source, factor = (np.load(one, mmap_mode="r") for one in (matrix, result))
    worst = 0.0
    for row_number in range(0, source.shape[0], max(1, source.shape[0] // 16)):
        line = factor[row_number, : row_number + 1].astype(np.float64)
        made = factor[:, : row_number + 1].astype(np.float64) @ line
        worst = max(worst, float(np.abs(made - source[row_number]).max()))
    return worst / float(np.abs(source[0]).max())


def _value_error(found: Path, exact: Path) -> float:
    values, known = np.load(found), np.load(exact)
    return float(np.abs(values / known - 1).max())


if __name__ == "__main__":
    for one in measure():
        print(f"{one.what}: {one.value} {one.unit} (bar {one.bar}) {one.peer} {one.note}")
