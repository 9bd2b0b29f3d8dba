"""The pipeline with a real engine (level `none`)."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.host.engine import Engine
from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import EngineError
from gpugoblin.graph.interpret import interpret
from server_stub.node.work import (
    BlobInput,
    BlobOutput,
    Checked,
    Computed,
    Failed,
    RegionInput,
    Reply,
)
from server_stub.node.workers import finish
from server_stub.node.workers.compute import ComputeLine
from server_stub.node.workers.engine_room import RoomConfig
from tests.helpers.node_work import (
    blob_of,
    compute_item,
    function_graph,
    load_file,
    product_graph,
    recompute_item,
    region_of,
    result_of,
)

MIB = 1024 * 1024
A = np.random.default_rng(1).standard_normal((50, 40), dtype=np.float32)
B = np.random.default_rng(2).standard_normal((40, 300), dtype=np.float32)
WAIT_S = 60


class Line:
    """A pipeline and its answers."""

    def __init__(self, place: Path) -> None:
        self.store = BlobStore(place / "store")
        self.answers: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        config = RoomConfig(place, "none", 1, 64 * MIB, 32 * MIB)
        self.line = ComputeLine(config, self.store, self.answers.put)
        self.line.start()

    def do(self, item: Any) -> Any:
        self.line.put(item)
        return self.answers.get(timeout=WAIT_S)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    made = Line(tmp_path)
    yield made
    made.line.close()


def test_products_are_computed_checked_and_written(tmp_path: Path, line: Line) -> None:
    graph = product_graph(50, 40, 300)
    inputs = (region_of(tmp_path, "a", A, pad=2), region_of(tmp_path, "b", B))
    place = result_of(tmp_path, "c.npy", "float32", (50, 300))
    first = line.do(compute_item("t1", graph, inputs, (place,)))
    assert isinstance(first, Computed)
    c = load_file(place.array)
    np.testing.assert_allclose(c, interpret(graph, [A, B])[0], rtol=1e-4, atol=1e-4)
    assert first.verified
    assert first.input_blobs == (blob_hash(A.tobytes()), blob_hash(B.tobytes()))
    assert first.output_blobs == (blob_hash(c.tobytes()),)
    assert first.output_nbytes == (c.nbytes,)
    assert (first.sandbox_level, first.code) == ("none", "")
    # A blob as carry, the output as a blob; operands that are still there are not read again.
    carried = product_graph(50, 40, 300, carry=True)
    more = (*inputs, blob_of(line.store, c))
    second = line.do(compute_item("t2", carried, more, (BlobOutput("float32", (50, 300)),)))
    assert second.verified
    with line.store.open_read(second.output_blobs[0]) as reader:
        twice = np.frombuffer(reader.read(), np.float32).reshape(50, 300)
    np.testing.assert_allclose(twice, 2 * c, rtol=1e-4, atol=1e-4)


def test_many_items_at_once(tmp_path: Path, line: Line) -> None:
    graph = product_graph(50, 40, 300)
    b = region_of(tmp_path, "b", B)
    places = []
    for number in range(8):
        a = region_of(tmp_path, f"a{number}", A + np.float32(number))
        places.append(result_of(tmp_path, f"c{number}", "float32", (50, 300)))
        line.line.put(compute_item(f"t{number}", graph, (a, b), (places[-1],)))
    replies: list[Any] = [line.answers.get(timeout=WAIT_S) for _ in places]
    assert all(reply.verified for reply in replies)
    for number, place in enumerate(places):
        expected = interpret(graph, [A + np.float32(number), B])[0]
        np.testing.assert_allclose(load_file(place.array), expected, rtol=1e-3, atol=1e-3)


def test_other_graphs_are_kept_for_the_validator(tmp_path: Path, line: Line) -> None:
    graph = function_graph("tanh", 50, 40)
    place = result_of(tmp_path, "y.npy", "float32", (50, 40))
    a = region_of(tmp_path, "a", A)
    reply = line.do(compute_item("t", graph, (a,), (place,), verify="recompute"))
    assert not reply.verified
    committed = BlobInput(reply.output_blobs[0], A.nbytes, "float32", A.shape)
    assert not load_file(place.array).any()
    checked = line.do(recompute_item("v", graph, (a,), (committed,), (place,)))
    assert isinstance(checked, Checked)
    assert (checked.accepted, checked.own_blobs) == (True, ())
    np.testing.assert_allclose(load_file(place.array), np.tanh(A), rtol=1e-5)


def test_the_validator_repairs(tmp_path: Path, line: Line) -> None:
    graph = function_graph("tanh", 50, 40)
    place = result_of(tmp_path, "y.npy", "float32", (50, 40))
    a = region_of(tmp_path, "a", A)
    lie = blob_of(line.store, A)
    judged = line.do(recompute_item("v", graph, (a,), (lie,), (place,), fold=False, repair=False))
    assert (judged.accepted, judged.code, judged.own_blobs) == (False, "result_mismatch", ())
    assert not load_file(place.array).any()
    repaired = line.do(recompute_item("v", graph, (a,), (lie,), (place,)))
    assert not repaired.accepted
    own = load_file(place.array)
    np.testing.assert_allclose(own, np.tanh(A), rtol=1e-5)
    assert repaired.own_blobs == (blob_hash(own.tobytes()),)
    computed = line.do(recompute_item("v", graph, (a,), (), (BlobOutput("float32", A.shape),)))
    assert computed.accepted
    assert computed.own_blobs == repaired.own_blobs
    assert line.store.has(computed.own_blobs[0])


def lying(real: Callable[..., Any], wrong_calls: list[int]) -> Callable[..., Any]:
    def copyto(target: Any, source: Any) -> None:
        real(target, source)
        if wrong_calls:
            wrong_calls.pop()
            target[-1, -1] += np.float32(0.01)

    return copyto


def test_wrong_products_are_not_written(
    tmp_path: Path, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the check sees is wrong in the last element: nothing of that copy reaches the result."""
    graph = product_graph(50, 40, 300)
    inputs = (region_of(tmp_path, "a", A), region_of(tmp_path, "b", B))
    place = result_of(tmp_path, "c.npy", "float32", (50, 300))
    monkeypatch.setattr(finish.np, "copyto", lying(np.copyto, [1]))
    reply = line.do(compute_item("t", graph, inputs, (place,)))
    assert (reply.verified, reply.code) == (False, "product_mismatch")
    assert not load_file(place.array).any()
    assert line.store.has(reply.output_blobs[0])
    assert line.do(compute_item("t", graph, inputs, (place,))).verified


def test_not_finite_products_go_to_the_validator(tmp_path: Path, line: Line) -> None:
    graph = product_graph(50, 40, 300)
    bad = A.copy()
    bad[3, 3] = np.nan
    inputs = (region_of(tmp_path, "a", bad), region_of(tmp_path, "b", B))
    place = result_of(tmp_path, "c.npy", "float32", (50, 300))
    reply = line.do(compute_item("t", graph, inputs, (place,)))
    assert (reply.verified, reply.code) == (False, "product_undecidable")
    committed = BlobInput(reply.output_blobs[0], 4 * 50 * 300, "float32", (50, 300))
    assert line.do(recompute_item("v", graph, inputs, (committed,), (place,))).accepted
    assert np.isnan(load_file(place.array)[3]).all()


def test_failures_say_why_and_leave_the_line_alive(tmp_path: Path, line: Line) -> None:
    graph = product_graph(50, 40, 300)
    a, b = region_of(tmp_path, "a", A), region_of(tmp_path, "b", B)
    place = result_of(tmp_path, "c.npy", "float32", (50, 300))
    gone = RegionInput(a.array, a.box, "0" * 64)
    huge = product_graph(1, 1, 40 * MIB)
    cases = [
        (compute_item("t", graph, (gone, b), (place,)), "array_bytes_changed"),
        (compute_item("t", graph, (a,), (place,)), "result_shape"),
        (compute_item("t", huge, (a, b), (place,)), "item_too_large"),
        (compute_item("t", graph, (b, a), (place,)), "result_shape"),
    ]
    for item, code in cases:
        reply = line.do(item)
        assert isinstance(reply, Failed)
        assert reply.code == code
    Path(a.array.path).unlink()
    assert line.do(compute_item("t", graph, (a, b), (place,))).code == "array_unreadable"
    again = region_of(tmp_path, "a", A)
    assert line.do(compute_item("t", graph, (again, b), (place,))).verified


def test_the_engine_is_started_again(
    tmp_path: Path, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = product_graph(50, 40, 300)
    inputs = (region_of(tmp_path, "a", A), region_of(tmp_path, "b", B))
    place = result_of(tmp_path, "c.npy", "float32", (50, 300))
    assert line.do(compute_item("t1", graph, inputs, (place,))).verified
    engine = line.line._room._engine
    assert engine is not None
    engine._process.kill()
    assert line.do(compute_item("t2", graph, inputs, (place,))).verified
    assert line.line._room._engine is not engine


def test_an_engine_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> Any:
        raise EngineError("engine_start_failed", reason="not today", python="python")

    monkeypatch.setattr(Engine, "start", refuse)
    made = Line(tmp_path)
    try:
        graph = product_graph(50, 40, 300)
        inputs = (region_of(tmp_path, "a", A), region_of(tmp_path, "b", B))
        place = result_of(tmp_path, "c.npy", "float32", (50, 300))
        reply = made.do(compute_item("t", graph, inputs, (place,)))
        assert (reply.family, reply.code) == ("EngineError", "engine_start_failed")
    finally:
        made.line.close()
