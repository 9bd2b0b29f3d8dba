"""The last stage, on its own: hashes of what is written, and nothing of what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.host.arena import Arena
from app.host.spec import Done, Ready
from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.verify.bias import DIRECTIONS
from gpugoblin.verify.forms import product_form
from server_stub.node.work import Checked, Compute, Computed, Recompute
from server_stub.node.workers.engine_room import Outcome
from server_stub.node.workers.finish import Finisher, Job
from server_stub.node.workers.residents import Resident, Residents
from tests.helpers.float32 import evaluate_float32
from tests.helpers.node_work import (
    blob_of,
    compute_item,
    deep_graph,
    kept,
    load_file,
    product_graph,
    recompute_item,
    region_of,
    result_of,
)

READY = Ready("build", "driver", "cpu", "0" * 64, "1" * 64, 1, "none", {})
A = np.random.default_rng(1).standard_normal((700, 30), dtype=np.float32)
B = np.random.default_rng(2).standard_normal((30, 900), dtype=np.float32)


@pytest.fixture
def residents() -> Iterator[Residents]:
    lock = threading.Condition(threading.RLock())
    with Arena(1 << 22, "input") as inputs, Arena(1 << 23, "output") as outputs:
        yield Residents(inputs, outputs, lock, 1 << 22)


def run(place: Path, residents: Residents, output: Array) -> tuple[Computed, Array]:
    """Finishes an item whose engine has answered `output`."""
    graph = product_graph(700, 30, 900)
    held: list[Resident] = []
    for name, array in (("a", A), ("b", B)):

        def load(resident: Resident, array: Array = array) -> None:
            residents.inputs.view(resident.slot)[:] = array.tobytes()

        held.append(residents.acquire(name, array.nbytes, load))
    slot = residents.output(output.nbytes)
    residents.outputs.view(slot)[:] = output.tobytes()
    target = result_of(place, "c.npy", "float32", output.shape)
    inputs = (region_of(place, "a", A), region_of(place, "b", B))
    item: Compute = compute_item("t", graph, inputs, (target,))
    job = Job(item, graph, product_form(graph), tuple(held), (slot,))
    outcome = Outcome(Done(1, 0.5, 100), READY)
    reply = Finisher(residents, BlobStore(place / "store")).finish(job, outcome)
    assert isinstance(reply, Computed)
    return reply, load_file(target.array)


def test_more_than_one_piece(tmp_path: Path, residents: Residents) -> None:
    honest = A @ B
    reply, written = run(tmp_path, residents, honest)
    assert reply.verified
    assert reply.output_blobs == (blob_hash(honest.tobytes()),)
    assert (reply.engine_build, reply.compute_s) == ("build", 0.5)
    np.testing.assert_array_equal(written, honest)


def test_pieces_after_a_wrong_one_are_not_written(tmp_path: Path, residents: Residents) -> None:
    wrong = A @ B
    wrong[500, 3] += 1
    reply, written = run(tmp_path, residents, wrong)
    assert (reply.verified, reply.code) == (False, "product_mismatch")
    assert reply.output_blobs == (blob_hash(wrong.tobytes()),)
    assert written[0].any()
    assert not written[500:].any()


@pytest.mark.parametrize("off", [0.0, 0.5])
def test_factors_are_judged_and_written(tmp_path: Path, residents: Residents, off: float) -> None:
    builder = GraphBuilder()
    graph = builder.build(
        list(builder.add_many("eigh", [builder.input(TensorSpec("float32", (30, 30)))]))
    )
    matrix = A[:30] + A[:30].T
    outputs = [np.array(one) for one in interpret(graph, [matrix])]
    outputs[1][-1] += np.float32(off)

    def load(resident: Resident) -> None:
        residents.inputs.view(resident.slot)[:] = matrix.tobytes()

    held = residents.acquire("a", matrix.nbytes, load)
    slots = []
    for one in outputs:
        slots.append(residents.output(one.nbytes))
        residents.outputs.view(slots[-1])[:] = one.tobytes()
    targets = tuple(
        result_of(tmp_path, f"{number}.npy", "float32", one.shape)
        for number, one in enumerate(outputs)
    )
    item: Compute = compute_item("t", graph, (region_of(tmp_path, "a", matrix),), targets)
    job = Job(item, graph, None, (held,), tuple(slots))
    reply = Finisher(residents, BlobStore(tmp_path / "store")).finish(
        job, Outcome(Done(1, 0.5, 100), READY)
    )
    assert isinstance(reply, Computed)
    assert (reply.verified, reply.code) == ((False, "product_mismatch") if off else (True, ""))
    assert reply.output_blobs == tuple(blob_hash(one.tobytes()) for one in outputs)
    for target, one in zip(targets, outputs, strict=True):
        np.testing.assert_array_equal(load_file(target.array), np.zeros_like(one) if off else one)


def test_the_validator_tells_and_uses_what_it_measured(
    tmp_path: Path, residents: Residents
) -> None:
    graph = deep_graph()
    random = np.random.default_rng(2)
    arrays = [random.standard_normal((128, 128)).astype(np.float32) for _ in range(3)]
    own, other = (evaluate_float32(graph, arrays, seed)[0] for seed in (1, 2))
    store = BlobStore(tmp_path / "store")
    held: list[Resident] = []
    for number, array in enumerate(arrays):

        def load(resident: Resident, array: Array = array) -> None:
            residents.inputs.view(resident.slot)[:] = array.tobytes()

        held.append(residents.acquire(str(number), array.nbytes, load))
    slot = residents.output(own.nbytes)
    residents.outputs.view(slot)[:] = own.tobytes()
    item: Recompute = recompute_item(
        "t", graph, tuple(region_of(tmp_path, str(n), a) for n, a in enumerate(arrays)),
        (blob_of(store, other),), (kept("float32", (128, 128)),),
    )  # fmt: skip
    finisher = Finisher(residents, store)
    outcome = Outcome(Done(1, 0.5, 100), READY)
    first = finisher.finish(Job(item, graph, None, tuple(held), (slot,)), outcome)
    assert isinstance(first, Checked)
    assert first.accepted
    assert len(first.tolerance[0]) == 64
    known = msgspec.structs.replace(item, tolerance=first.tolerance)
    again = finisher.finish(Job(known, graph, None, tuple(held), (slot,)), outcome)
    assert isinstance(again, Checked)
    assert (again.accepted, again.tolerance, again.signed) == (True, (), ())
    # A device that has erred in one direction: what it returns now is right, and not used.
    watched = msgspec.structs.replace(known, secret="ab" * 32)
    told = finisher.finish(Job(watched, graph, None, tuple(held), (slot,)), outcome)
    assert isinstance(told, Checked)
    assert (told.accepted, told.own_blobs, len(told.signed)) == (True, (), DIRECTIONS)
    errs = (40.0, 20.0, *(20.0 for _ in range(DIRECTIONS)))
    watched = msgspec.structs.replace(watched, bias=errs)
    unused = finisher.finish(Job(watched, graph, None, tuple(held), (slot,)), outcome)
    assert isinstance(unused, Checked)
    assert (unused.accepted, unused.code, unused.signed) == (False, "result_biased", told.signed)
    assert unused.own_blobs == (blob_of(store, own).blob,)
