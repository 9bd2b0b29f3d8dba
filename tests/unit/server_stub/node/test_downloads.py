"""Which regions may leave, and how their bounds are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from gpugoblin.errors import NodeError
from gpugoblin.plan.spec import Region
from server_stub.node import downloads
from server_stub.node.state import arrays
from server_stub.node.store.sqlite import SqliteTx
from tests.helpers.lab import (
    Lab,
    gate,
    product,
    refused,
    row_sums,
    until,
)
from tests.simulation.world import Shape, World

__all__: list[str] = []


@pytest.mark.parametrize(
    ("text", "expected"), [("0,5", (0, 5)), ("7", (7,)), ("", ()), ("1,2,3", (1, 2, 3))]
)
def test_bounds(text: str, expected: tuple[int, ...]) -> None:
    assert downloads.indices("start", text) == expected


@pytest.mark.parametrize("text", [None, "a", "1,,2", "-1", "1.5", "1," * 200, "9" * 16, "\u0663"])
def test_bounds_that_cannot_be(text: str | None) -> None:
    with pytest.raises(NodeError) as caught:
        downloads.indices("start", text)
    assert caught.value.code == "parameter_invalid"


def fold(world: World, job: str, task: int, start: tuple[int, int], stop: tuple[int, int]) -> None:
    world.connection.execute(
        "insert into fold values(?, 0, ?, 0, ?, ?, ?, 'b', 1.0)",
        (task, job, start[0], stop[0], f"[{list(start)},{list(stop)}]"),
    )


def test_a_region_is_covered_by_all_its_tasks_or_not_at_all(world: World) -> None:
    job = world.submit(Shape(1))
    row = arrays.of_job(SqliteTx(world.connection), job)[0]
    # Three of the four tiles of a 4 x 4 array.
    fold(world, job, 1, (0, 0), (2, 2))
    fold(world, job, 2, (0, 2), (2, 4))
    fold(world, job, 3, (2, 0), (4, 2))

    def covered(start: tuple[int, ...], stop: tuple[int, ...]) -> bool:
        return downloads.covered(SqliteTx(world.connection), row, Region(start, stop))

    assert covered((0, 0), (2, 4))
    assert covered((1, 1), (2, 3))
    assert covered((0, 0), (4, 2))
    assert covered((3, 1), (4, 2))
    assert not covered((0, 0), (4, 4))
    assert not covered((1, 1), (3, 3))
    assert not covered((2, 2), (3, 3))
    assert covered((2, 2), (2, 4)), "nothing is always there"
    fold(world, job, 4, (2, 2), (4, 4))
    assert covered((0, 0), (4, 4))


def test_an_input_is_there_when_it_is_complete(world: World) -> None:
    from dataclasses import replace

    world.submit(Shape(1))
    row: Any = arrays.load(SqliteTx(world.connection), "array_job")
    tx = SqliteTx(world.connection)
    assert downloads.covered(tx, row, Region((0,), (5,)))
    assert not downloads.covered(tx, replace(row, complete=False), Region((0,), (5,)))


def test_a_region_outside_the_array(world: World) -> None:
    world.submit(Shape(1))
    row: Any = arrays.load(SqliteTx(world.connection), "array_job")
    for start, stop in [((0,), (1001,)), ((5,), (4,)), ((0, 0), (1, 1)), ((), ())]:
        with pytest.raises(NodeError) as caught:
            downloads._checked(row, start, stop)
        assert caught.value.code == "region_invalid"


def test_regions_are_served_when_verified_and_not_before(lab: Lab) -> None:
    lab.node.workers.hold = hold = lab.node.call(gate())
    a, b, graph = product(30, 4, 7)
    job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"))
    refused("region_not_verified", lambda: lab.result(job.outputs[0]))
    lab.node.loop.call_soon_threadsafe(hold.set)
    job = lab.wait(job)
    np.testing.assert_allclose(lab.result(job.outputs[0]), a @ b, rtol=1e-4, atol=1e-4)
    beyond = f"/v1/arrays/{job.outputs[0].array}/region?start=0,0&stop=31,7"
    refused("region_invalid", lambda: lab.client.fetch("GET", beyond, max_bytes=1 << 20))


def test_an_output_comes_as_a_container(lab: Lab) -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    job = lab.wait(lab.submit(row_sums((2, 4)), lab.file(values, "v.npy")))
    path = f"/v1/jobs/{job.job}/outputs.safetensors?output=0"
    found = load(lab.client.fetch("GET", path, max_bytes=1 << 20))
    np.testing.assert_allclose(found["output"], values.sum(1))


def test_a_large_region_is_packed_streamed_and_let_go(lab: Lab) -> None:
    values = np.arange(3 * 2**20, dtype=np.float32).reshape(3, 2**20)
    info = lab.file(values, "v.npy")
    np.testing.assert_array_equal(lab.result(info), values)
    assert "Prepare" in lab.node.workers.done
    until(lambda: list(lab.node.workers.store.names()) == [])
    assert lab.node.read("select count(*) from lent") == [(0,)]
