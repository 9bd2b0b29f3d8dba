"""Items that need no engine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import StoreError, VerifyError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import encode
from server_stub.node.work import (
    BlobInput,
    BlobOutput,
    Checked,
    Compare,
    Describe,
    Described,
    Fold,
    Folded,
    Prepare,
    Prepared,
    Recompute,
)
from server_stub.node.workers.checks import CheckDesk
from tests.helpers.float32 import evaluate_float32
from tests.helpers.node_work import (
    blob_of,
    check_item,
    deep_graph,
    function_graph,
    load_file,
    product_graph,
    region_of,
    result_of,
)

A = np.random.default_rng(1).standard_normal((50, 40), dtype=np.float32)
B = np.random.default_rng(2).standard_normal((40, 300), dtype=np.float32)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "store")


def test_describe(tmp_path: Path, store: BlobStore) -> None:
    source = region_of(tmp_path, "a", A)
    reply = CheckDesk(store).do(Describe("w", "npy", source.array.path))
    assert reply == Described("w", source.array)


@pytest.mark.parametrize("keep", [True, False])
def test_prepare(tmp_path: Path, store: BlobStore, keep: bool) -> None:
    source = region_of(tmp_path, "a", A, pad=4)
    reply = CheckDesk(store).do(Prepare("w", source, keep))
    assert reply == Prepared("w", blob_hash(A.tobytes()), A.nbytes)
    assert store.has(blob_hash(A.tobytes())) == keep


def test_check_accepts_and_folds(tmp_path: Path, store: BlobStore) -> None:
    desk = CheckDesk(store)
    graph = product_graph(50, 40, 300)
    inputs = (region_of(tmp_path, "a", A), region_of(tmp_path, "b", B))
    place = result_of(tmp_path, "c.npy", "float32", (50, 300))
    c = interpret(graph, [A, B])[0]
    item = check_item("w", graph, inputs, (blob_of(store, c),), (place,))
    reply = desk.do(item)
    assert reply.accepted  # type: ignore[union-attr]
    np.testing.assert_array_equal(load_file(place.array), c)
    assert desk.do(item).accepted  # type: ignore[union-attr]


def test_check_refuses_and_draws_again(tmp_path: Path, store: BlobStore) -> None:
    desk = CheckDesk(store)
    graph = product_graph(50, 40, 300, carry=True)
    carry = np.ones((50, 300), np.float32)
    inputs = (region_of(tmp_path, "a", A), blob_of(store, B), blob_of(store, carry))
    place = result_of(tmp_path, "c.npy", "float32", (50, 300))
    c = interpret(graph, [A, B, carry])[0]
    c[49, 299] += np.float32(0.01)
    reply = desk.do(check_item("w", graph, inputs, (blob_of(store, c),), (place,)))
    assert (reply.accepted, reply.code) == (False, "product_mismatch")  # type: ignore[union-attr]
    c[49, 299] -= np.float32(0.01)
    again = check_item("w", graph, inputs, (blob_of(store, c),), (BlobOutput("float32", c.shape),))
    assert desk.do(again).accepted  # type: ignore[union-attr]


def test_check_of_what_is_not_finite(tmp_path: Path, store: BlobStore) -> None:
    graph = product_graph(50, 40, 300)
    bad = A.copy()
    bad[0, 0] = np.inf
    inputs = (region_of(tmp_path, "a", bad), region_of(tmp_path, "b", B))
    c = interpret(graph, [bad, B])[0]
    place = BlobOutput("float32", (50, 300))
    reply = CheckDesk(store).do(check_item("w", graph, inputs, (blob_of(store, c),), (place,)))
    assert (reply.accepted, reply.code) == (False, "product_undecidable")  # type: ignore[union-attr]


def test_factors_are_checked_and_folded(tmp_path: Path, store: BlobStore) -> None:
    """Several outputs: one goes into a file, one stays a blob."""
    desk = CheckDesk(store)
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (50, 40)))
    graph = builder.build(list(builder.add_many("qr", [a])))
    q, r = interpret(graph, [A])
    place = result_of(tmp_path, "q.npy", "float32", (50, 40))
    outputs = (place, BlobOutput("float32", (40, 40)))
    inputs = (region_of(tmp_path, "a", A),)
    wrong = r.copy()
    wrong[3, 30] += np.float32(0.1)
    reply = desk.do(
        check_item("w", graph, inputs, (blob_of(store, q), blob_of(store, wrong)), outputs)
    )
    assert (reply.accepted, reply.code) == (False, "product_mismatch")  # type: ignore[union-attr]
    assert not load_file(place.array).any()
    reply = desk.do(check_item("w", graph, inputs, (blob_of(store, q), blob_of(store, r)), outputs))
    assert reply.accepted  # type: ignore[union-attr]
    np.testing.assert_array_equal(load_file(place.array), q)


def test_check_refuses_other_shapes(tmp_path: Path, store: BlobStore) -> None:
    desk = CheckDesk(store)
    graph = product_graph(50, 40, 300)
    inputs = (region_of(tmp_path, "a", A), region_of(tmp_path, "b", B))
    place = BlobOutput("float32", (50, 300))
    for committed in ((), (blob_of(store, A),)):
        with pytest.raises(VerifyError) as caught:
            desk.do(check_item("w", graph, inputs, committed, (place,)))
        assert caught.value.code == "result_shape"
    c = blob_of(store, np.zeros((50, 300), np.float32))
    for wrong in (inputs[:1], (inputs[1], inputs[0])):
        with pytest.raises(VerifyError) as caught:
            desk.do(check_item("w", graph, wrong, (c,), (place,)))
        assert caught.value.code == "result_shape"
    other = function_graph("tanh", 50, 300)
    with pytest.raises(VerifyError) as caught:
        desk.do(check_item("w", other, (c,), (c,), (place,)))
    assert caught.value.code == "not_a_product"


def test_compare(store: BlobStore) -> None:
    desk = CheckDesk(store)
    graph = function_graph("tanh", 50, 40)
    first = interpret(graph, [A])[0]
    near = np.nextafter(first, np.float32(9), dtype=np.float32)
    far = first + np.float32(0.1)
    inputs = (blob_of(store, A),)

    def agree(one: BlobInput, other: BlobInput, with_inputs: bool = True) -> bool:
        item = Compare(
            "w", encode(graph), "float32", (one,), (other,), 0, inputs if with_inputs else ()
        )
        return bool(desk.do(item).accepted)  # type: ignore[union-attr]

    one, two, three = (blob_of(store, array) for array in (first, near, far))
    assert agree(one, one)
    assert agree(one, two)
    assert not agree(one, three)
    assert agree(one, one, with_inputs=False)
    assert not agree(one, two, with_inputs=False)


def test_what_a_comparison_measures_is_told_and_used(store: BlobStore) -> None:
    """Two honest results of a graph whose proven bound says little."""
    desk = CheckDesk(store)
    graph = deep_graph()
    random = np.random.default_rng(2)
    arrays = [random.standard_normal((128, 128)).astype(np.float32) for _ in range(3)]
    one, two = (blob_of(store, evaluate_float32(graph, arrays, seed)[0]) for seed in (1, 2))
    inputs = tuple(blob_of(store, array) for array in arrays)
    item = Compare("w", encode(graph), "float32", (one,), (two,), 0, inputs)
    first = desk.do(item)
    assert isinstance(first, Checked)
    assert first.accepted
    assert len(first.tolerance[0]) == 64
    again = desk.do(msgspec.structs.replace(item, tolerance=first.tolerance))
    assert isinstance(again, Checked)
    assert (again.accepted, again.tolerance) == (True, ())


def test_fold(tmp_path: Path, store: BlobStore) -> None:
    desk = CheckDesk(store)
    place = result_of(tmp_path, "out.npy", "float32", A.shape)
    item = Fold(
        "w", (blob_of(store, A), blob_of(store, B)), (place, BlobOutput("float32", B.shape))
    )
    assert desk.do(item) == Folded("w")
    np.testing.assert_array_equal(load_file(place.array), A)
    for broken in (Fold("w", (), (place,)), Fold("w", (blob_of(store, B),), (place,))):
        with pytest.raises(VerifyError) as caught:
            desk.do(broken)
        assert caught.value.code == "result_shape"


def test_a_missing_blob(tmp_path: Path, store: BlobStore) -> None:
    missing = BlobInput("0" * 64, A.nbytes, "float32", A.shape)
    place = result_of(tmp_path, "out.npy", "float32", A.shape)
    with pytest.raises(StoreError) as caught:
        CheckDesk(store).do(Fold("w", (missing,), (place,)))
    assert caught.value.code == "blob_missing"


def test_what_is_not_for_it(store: BlobStore) -> None:
    item = Recompute("w", b"", "float32", (), (), (), False, False, 0, 0)
    with pytest.raises(VerifyError) as caught:
        CheckDesk(store).do(item)
    assert caught.value.code == "worker_protocol"
