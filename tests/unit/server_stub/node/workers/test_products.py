"""Product checks over streams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import StoreError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.verify.forms import ProductForm, product_form
from gpugoblin.verify.product import project_right
from server_stub.node.work import RegionInput
from server_stub.node.workers.products import (
    Hands,
    band_rows,
    check_streams,
    load_array,
    project_stream,
)
from server_stub.node.workers.streams import InputStream, open_input
from tests.helpers.node_work import blob_of, region_of


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "store")


def form_of(rows: int, inner: int, columns: int, ta: bool, tb: bool) -> ProductForm:
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (inner, rows) if ta else (rows, inner)))
    b = builder.input(TensorSpec("float32", (columns, inner) if tb else (inner, columns)))
    graph: Graph = builder.build([builder.add("matmul", [a, b], transpose_a=ta, transpose_b=tb)])
    form = product_form(graph)
    assert form is not None
    return form


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_streams_say_what_arrays_say(tmp_path: Path, store: BlobStore, ta: bool, tb: bool) -> None:
    """More than one band of every operand, and columns of two sizes."""
    rows, inner, columns = 40, 1100, 1200
    form = form_of(rows, inner, columns, ta, tb)
    random = np.random.default_rng(3)
    a = random.standard_normal((rows, inner), dtype=np.float32)
    b = random.standard_normal((inner, columns), dtype=np.float32)
    b[:, ::3] *= np.float32(1e-6)
    c = a @ b
    left = region_of(tmp_path, "a", a.T.copy() if ta else a, pad=2)
    right = region_of(tmp_path, "b", b.T.copy() if tb else b, pad=1)
    streams: list[InputStream] = [open_input(source, store) for source in (left, right)]
    good = open_input(blob_of(store, c), store)
    wrong_c = c.copy()
    wrong_c[33, 999] *= 2
    wrong = open_input(blob_of(store, wrong_c), store)
    accepted: list[tuple[int, bytes]] = []
    try:
        hands = project_stream(form, streams[1])
        verdict = check_streams(
            form, streams[0], hands, None, good, lambda at, data: accepted.append((at, bytes(data)))
        )
        assert verdict.accepted
        assert b"".join(data for _, data in accepted) == c.tobytes()
        verdict = check_streams(form, streams[0], hands, None, wrong)
        assert verdict.code == "product_mismatch"
    finally:
        for stream in (*streams, good, wrong):
            stream.close()


def test_inputs_must_be_what_was_sent(tmp_path: Path, store: BlobStore) -> None:
    form = form_of(4, 5, 60, False, False)
    array = np.ones((5, 60), np.float32)
    source = region_of(tmp_path, "b", array)
    stream = open_input(RegionInput(source.array, source.box, "0" * 64), store)
    with pytest.raises(StoreError) as caught:
        project_stream(form, stream)
    with pytest.raises(StoreError):
        load_array(stream)
    stream.close()
    assert caught.value.code == "array_bytes_changed"
    assert source.array.path in str(caught.value)


def test_hands_are_shared_until_redrawn() -> None:
    hands = Hands(capacity=2)
    form = form_of(4, 5, 60, False, False)
    right: Array = np.ones((5, 60), np.float32)

    def get(key: str, used: ProductForm) -> object:
        return hands.get(key, used, lambda: project_right(used, right))

    first = get("b", form)
    assert get("b", form.with_rows(9)) is first
    hands.redraw("b", form)
    second = get("b", form)
    assert second is not first
    get("c", form)
    get("d", form)
    assert get("b", form) is not second


def test_band_rows() -> None:
    assert band_rows(0) == 4 * 1024 * 1024
    assert band_rows(1 << 30) == 1
    assert band_rows(1024, 4096) == 4
