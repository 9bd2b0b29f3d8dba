"""Byte ranges of boxes in dense and chunked files."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpugoblin.errors import StoreError
from server_stub.node.work import Box
from server_stub.node.workers.layouts import ChunkLayout, DenseLayout, Layout, fill_bytes

QUIET = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], Box, int, int]:
    """Shape, chunks, a box, and a range of its stream."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    start = tuple(draw(st.integers(0, extent)) for extent in shape)
    stop = tuple(draw(st.integers(s, e)) for s, e in zip(start, shape, strict=True))
    size = 4 * math.prod(b - a for a, b in zip(start, stop, strict=True))
    first = draw(st.integers(0, size))
    return shape, chunks, Box(start, stop), first, draw(st.integers(first, size))


def check_layout(layout: Layout, content: np.ndarray, box: Box, first: int, last: int) -> None:  # type: ignore[type-arg]
    """A write and a read of a range do what NumPy does."""
    where = tuple(slice(*pair) for pair in zip(box.start, box.stop, strict=True))
    stream = np.random.default_rng(1).integers(0, 255, last - first).astype(np.uint8)
    expected = content.copy()
    part = bytearray(expected[where].tobytes())
    part[first:last] = stream.tobytes()
    expected[where] = np.frombuffer(part, np.int32).reshape(expected[where].shape)
    if stream.size:
        layout.write(box, first, stream.data)
    layout.sync()
    target = bytearray(last - first)
    layout.read(box, first, last, memoryview(target))
    assert target == stream.tobytes()
    whole = bytearray(content.nbytes)
    everything = Box((0,) * content.ndim, content.shape)
    layout.read(everything, 0, content.nbytes, memoryview(whole))
    assert whole == expected.tobytes()
    layout.advise(box)
    layout.advise(box, 1 << 30)


@given(boxes())
@QUIET
def test_dense(
    tmp_path: Path, case: tuple[tuple[int, ...], tuple[int, ...], Box, int, int]
) -> None:
    shape, _, box, first, last = case
    content = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    path = tmp_path / "dense"
    path.write_bytes(b"12345" + content.tobytes())
    layout = DenseLayout(path, 5, shape, 4, writable=True)
    try:
        check_layout(layout, content, box, first, last)
    finally:
        layout.close()


@given(boxes())
@QUIET
def test_chunks(
    tmp_path: Path, case: tuple[tuple[int, ...], tuple[int, ...], Box, int, int]
) -> None:
    shape, chunks, box, first, last = case
    root = tmp_path / f"z{len(list(tmp_path.iterdir()))}"
    content = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    layout = ChunkLayout(root, shape, chunks, 4, fill_bytes(np.dtype("<i4"), 7), writable=True)
    try:
        layout.write(Box((0,) * len(shape), shape), 0, memoryview(content.tobytes()))
        check_layout(layout, content, box, first, last)
    finally:
        layout.close()


def test_long_rows_and_short_rows_agree(tmp_path: Path) -> None:
    """Short runs are read in bands, long ones one by one: the same bytes."""
    content = np.random.default_rng(0).integers(0, 9, (3, 700, 1500)).astype(np.int32)
    path = tmp_path / "dense"
    content.tofile(path)
    layout = DenseLayout(path, 0, content.shape, 4)
    try:
        for columns in (1, 7, 200, 300, 1500):
            box = Box((1, 5, 3), (3, 699, min(1500, 3 + columns)))
            expected = content[1:3, 5:699, 3 : 3 + columns].tobytes()
            target = bytearray(len(expected))
            layout.read(box, 0, len(expected), memoryview(target))
            assert target == expected
            layout.advise(box)
    finally:
        layout.close()


def test_read_only_layouts_of_missing_chunks(tmp_path: Path) -> None:
    layout = ChunkLayout(tmp_path, (100,), (1,), 4, b"\1\0\0\0")
    target = bytearray(400)
    layout.read(Box((0,), (100,)), 0, 400, memoryview(target))
    assert target == b"\1\0\0\0" * 100
    layout.close()
    assert not list(tmp_path.iterdir())


def test_many_chunks_hold_few_descriptors(tmp_path: Path) -> None:
    content = np.arange(200, dtype=np.int32)
    writer = ChunkLayout(tmp_path, (200,), (1,), 4, bytes(4), writable=True)
    writer.write(Box((0,), (200,)), 0, memoryview(content.tobytes()))
    writer.sync()
    reader = ChunkLayout(tmp_path, (200,), (1,), 4, bytes(4))
    target = bytearray(800)
    reader.read(Box((0,), (200,)), 0, 800, memoryview(target))
    reader.close()
    assert target == content.tobytes()


def test_truncated(tmp_path: Path) -> None:
    path = tmp_path / "dense"
    path.write_bytes(bytes(10))
    layout = DenseLayout(path, 0, (4,), 4)
    with pytest.raises(StoreError) as caught:
        layout.read(Box((0,), (4,)), 0, 16, memoryview(bytearray(16)))
    layout.close()
    assert caught.value.code == "array_truncated"


def test_fill_values() -> None:
    assert fill_bytes(np.dtype("<f4"), "NaN") == np.float32(np.nan).tobytes()
    assert fill_bytes(np.dtype("<f4"), "-Infinity") == np.float32(-np.inf).tobytes()
    assert fill_bytes(np.dtype("<i8"), 3) == np.int64(3).tobytes()
    assert fill_bytes(np.dtype("?"), None) == b"\0"


@pytest.mark.parametrize(
    ("room_bytes", "width", "in_one_go"),
    [(1 << 30, 2048, True), (10 << 20, 2048, False), (1 << 30, 1024, False)],
)
def test_panels_that_come_next_are_read_with_the_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    room_bytes: int,
    width: int,
    in_one_go: bool,
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, at, size, __: asked.append((at, size)))
    rows, columns, head = 300, 16384, 128
    path = tmp_path / "dense"
    with path.open("wb") as file:
        file.truncate(head + rows * columns * 4)
    layout = DenseLayout(path, head, (rows, columns), 4)
    try:
        layout.advise(Box((0, width), (rows, 2 * width)), room_bytes)
    finally:
        layout.close()
    first, last = head + 4 * width, head + 4 * ((rows - 1) * columns + 2 * width)
    assert asked[0][0] == first
    assert sum(asked[-1]) == last
    if in_one_go:
        assert [at + size for at, size in asked[:-1]] == [at for at, _ in asked[1:]]
        assert max(size for _, size in asked) == 8 << 20
    else:
        assert [size for _, size in asked] == [4 * width] * rows
