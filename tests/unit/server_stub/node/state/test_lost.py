"""What the lab's disk lost is made again, or said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import StoreError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode as encode_graph
from server_stub.node.state import lost
from server_stub.node.state.words import Step
from server_stub.node.work import BlobInput, Compute
from tests.helpers.lab import DISK_FULL, Lab, on_grid, product, row_sums, until, work_until
from tests.helpers.node import LabNode

__all__: list[str] = []


def chained(rows: int) -> tuple[np.ndarray, bytes, np.ndarray]:
    """Two products, the second of the first: with a result that is kept in between."""
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, rows), dtype=np.float32)
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", a.shape))
    first = builder.add("matmul", (x, x))
    second = builder.add("matmul", (first, x))
    return a, encode_graph(builder.build((second,))), a @ a @ a


def counters(lab: Lab, job: str) -> list[tuple[Any, ...]]:
    """What must add up in a job that is done: counters, tasks, records, references."""
    total = lab.node.read(
        "select tasks, used, verified, by_product + by_recompute + by_equality + by_agreement"
        " from job where id = ?",
        job,
    )[0]
    used = lab.node.read(
        "select count(*), sum(consumers_left) from task where job = ? and state = 'used'", job
    )[0]
    held = lab.node.read("select count(*) from blob where refs > 0")[0][0]
    return [(len(set(total)) == 1, total[0] == used[0], used[1], held)]


def lose(lab: Lab, names: list[str]) -> list[lost.Lost]:
    for name in names:
        lab.node.node.blobs.delete(name)
    return lab.node.call(lab.node.node.handle(lambda step: lost.lose_blobs(step, names)))


def test_a_packed_input_is_packed_again(grid: Lab) -> None:
    a, b, graph = product(200, 40, 100)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    until(lambda: grid.node.read("select count(*) from task where state = 'ready'")[0][0] >= 1)
    with grid.device() as device:
        device.exchange(want=1)  # its lease is of an input that is lost
        names = [row[0] for row in grid.node.read("select hash from blob where refs > 0")]
        assert lose(grid, names) == []
        assert grid.node.read("select count(*) from lease where cause = 'bytes_lost'") == [(1,)]
        done = work_until(grid, job, [device])
    assert done.state == "done"
    np.testing.assert_allclose(grid.result(done.outputs[0]), a @ b, rtol=1e-4, atol=1e-4)
    assert counters(grid, job.job) == [(True, True, 0, 0)]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Lab]:
    """A node whose engine is so small that the first product is kept in tiles."""
    with LabNode(tmp_path, slot_bytes=2**20) as node, Lab(node, tmp_path) as lab:
        yield lab


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "chunks"])
def test_a_kept_result_that_cannot_be_read_is_made_again_by_itself(small: Lab, damage: str) -> None:
    """Nobody has to run a check: the worker that reads it says so."""
    a, graph, expected = chained(640)
    full = [True]

    def meddle(item: Any) -> StoreError | None:
        reads = isinstance(item, Compute) and any(
            isinstance(source, BlobInput) for source in item.inputs
        )
        return StoreError("disk_full", **DISK_FULL) if full[0] and reads else None

    small.node.workers.meddle = meddle
    small.node.node.local._retry_s = 0.05
    job = small.submit(graph, small.file(a, "a.npy"))
    until(lambda: small.node.read("select 1 from task where state = 'leased' and waits = 0"))
    until(lambda: small.job(job.job).error_code == "disk_full")
    names = [row[0] for row in small.node.read(
        "select distinct i.blob from task_input i join task t on t.id = i.task"
        " where i.blob is not null and i.producer is not null"
    )]  # fmt: skip
    assert names
    for name in names:
        place = small.node.node.blobs.path(name)
        if damage == "gone":
            place.unlink()
        elif damage == "chunks":
            place.with_name(f"{name}.chunks").write_bytes(b"short")
        else:
            data = bytearray(place.read_bytes())
            data[7] ^= 1
            place.write_bytes(data if damage == "flipped" else data[:-1])
    full[0] = False
    done = small.wait(small.job(job.job))
    assert (done.state, done.error_text) == ("done", "")
    np.testing.assert_allclose(small.result(done.outputs[0]), expected, rtol=1e-3, atol=1e-2)
    assert counters(small, job.job) == [(True, True, 0, 0)]


def test_a_disk_that_damages_whatever_is_written_ends_the_job(small: Lab) -> None:
    a, graph, _ = chained(640)

    def meddle(item: Any) -> StoreError | None:
        for source in item.inputs if isinstance(item, Compute) else ():
            if isinstance(source, BlobInput):
                return StoreError("blob_damaged", blob=source.blob, chunk=0)
        return None

    small.node.workers.meddle = meddle
    ended = small.wait(small.submit(graph, small.file(a, "a.npy")))
    assert (ended.state, ended.error_code) == ("failed", "blob_damaged")


@pytest.mark.parametrize("which", ["kept", "part"])
def test_a_result_is_computed_again_with_those_before_it(small: Lab, which: str) -> None:
    """`kept`: an intermediate that later tasks read. `part`: of the finished array, so that even
    intermediates that were let go of are made again."""
    a, graph, expected = chained(640)
    lab, array = small, small.file(a, "a.npy")
    if which == "kept":
        full = [True]

        def meddle(item: Any) -> StoreError | None:
            """The second product cannot be computed while the disk is full."""
            reads = isinstance(item, Compute) and any(
                isinstance(source, BlobInput) for source in item.inputs
            )
            return StoreError("disk_full", **DISK_FULL) if full[0] and reads else None

        lab.node.workers.meddle = meddle
        lab.node.node.local._retry_s = 0.05
        job = lab.submit(graph, array)
        kept = (
            "select o.blob from task_output o join task t on t.id = o.task where o.array is null"
            " and o.blob is not null and t.state in ('verified', 'used')"
        )
        until(lambda: lab.node.read(kept))
        (mended,) = lose(lab, [row[0] for row in lab.node.read(kept)])
        assert mended == (job.job, mended.tasks, "")
        assert mended.tasks >= 1
        full[0] = False
        done = lab.wait(job)
    else:
        job = lab.wait(lab.submit(graph, array))
        assert job.state == "done"
        places = lab.node.read("select task, slot from fold where job = ? and array = 0", job.job)
        path = Path(lab.node.read("select path from array where job = ?", job.job)[0][0])
        data = bytearray(path.read_bytes())
        data[-5] ^= 0xFF
        path.write_bytes(data)

        def body(step: Step) -> list[lost.Lost]:
            return lost.lose_results(step, places)

        (mended,) = lab.node.call(lab.node.node.handle(body))
        assert mended.job == job.job
        assert mended.tasks > len(places)
        done = lab.wait(lab.job(job.job))
    assert (done.state, done.error_code) == ("done", "")
    np.testing.assert_allclose(lab.result(done.outputs[0]), expected, rtol=1e-3, atol=1e-2)
    assert counters(lab, job.job) == [(True, True, 0, 0)]


def test_a_loss_that_nobody_needs_changes_nothing(lab: Lab) -> None:
    values = np.ones((4, 4), np.float32)
    job = lab.wait(lab.submit(row_sums((4, 4)), lab.file(values, "v.npy")))
    before = lab.node.read("select * from job")
    assert lose(lab, ["ab" * 32]) == []
    none = lab.node.call(lab.node.node.handle(lambda step: lost.lose_results(step, [(99, 0)])))
    assert none == []
    assert lab.node.read("select * from job") == before
    assert lab.job(job.job).state == "done"
