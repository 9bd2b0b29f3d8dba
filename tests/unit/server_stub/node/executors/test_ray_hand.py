"""What runs on a Ray machine: blobs in pieces, bounded; items done by real workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.errors import GoblinError
from server_stub.node.executors.ray_hand import PIECE_BYTES, Hand, inputs_of
from server_stub.node.executors.ray_words import BridgeConfig, Seat
from server_stub.node.work import (
    ArrayFile,
    BlobInput,
    BlobOutput,
    Box,
    Check,
    Checked,
    Compute,
    Computed,
    Failed,
    RegionInput,
)
from server_stub.node.workers.frames import LENGTH, decode_reply, encode_frame
from tests.helpers.lab import product

__all__: list[str] = []

MARKER = "5" * 64
MIB = 2**20


def config(root: Path, **changes: Any) -> bytes:
    (root / "node").mkdir(exist_ok=True)
    (root / "marker").write_text(MARKER)
    made = BridgeConfig(
        address="h:1", namespace="n", blob_root=str(root / "node"), marker=str(root / "marker"),
        level="none", threads=1, memory_bytes=64 * MIB, slot_bytes=16 * MIB, reserve_bytes=0,
        resource="", worker_dir=str(root / "worker"), cache_bytes=3 * MIB,
        catalog_hash=catalog_hash(), version="0.1.0",
    )  # fmt: skip
    return msgspec.json.encode(msgspec.structs.replace(made, **changes))


def with_hand(
    root: Path, body: Callable[[Hand], Coroutine[Any, Any, None]], marker: str = "other",
    **changes: Any,
) -> None:  # fmt: skip
    async def run() -> None:
        hand = Hand(config(root, **changes), "m" * 56, 2, marker)
        try:
            await body(hand)
        finally:
            await hand.stop()

    asyncio.run(run())


async def send(hand: Hand, data: bytes) -> str:
    name = str(blob_hash(data))
    for offset in range(0, max(1, len(data)), PIECE_BYTES):
        await hand.put(name, len(data), offset, data[offset : offset + PIECE_BYTES])
    return name


def test_it_says_what_it_has_and_whether_it_sees_the_disk(tmp_path: Path) -> None:
    async def hello(hand: Hand) -> None:
        seat = msgspec.json.decode(await hand.hello(), type=Seat)
        assert (seat.threads, seat.memory_bytes, seat.slot_bytes) == (1, 64 * MIB, 16 * MIB)
        seen.append(seat.shares_disk)
        marks.append(seat.marks)

    seen: list[bool] = []
    marks: list[tuple[str, ...]] = []
    with_hand(tmp_path, hello, marker=MARKER)
    with_hand(tmp_path, hello, marker="other")
    assert seen == [True, False]
    # Two hands on one computer, whatever Ray calls them.
    assert marks[0] == marks[1]
    assert any(mark.startswith("boot_id:") for mark in marks[0])


def test_another_version_is_refused(tmp_path: Path) -> None:
    async def hello(hand: Hand) -> None:
        told = msgspec.json.decode(await hand.hello())
        assert told["code"] == "ray_worker_differs"
        assert told["fields"]["wanted"] == "9.9"

    with_hand(tmp_path, hello, version="9.9")


def test_pieces_make_a_blob_or_nothing(tmp_path: Path) -> None:
    data = bytes(range(256)) * (PIECE_BYTES // 200)

    async def body(hand: Hand) -> None:
        name = str(blob_hash(data))
        assert await hand.missing({name: len(data)}) == [name]
        assert not await hand.put(name, len(data), 0, data[:PIECE_BYTES])
        with pytest.raises(GoblinError, match="not in the store"):
            await hand.put(name, len(data), 5, data[5:10])  # not the next one
        assert await hand.put(name, len(data), PIECE_BYTES, data[PIECE_BYTES:])
        assert await hand.missing({name: len(data)}) == []
        parts = [await hand.piece(name, at) for at in (0, PIECE_BYTES)]
        assert b"".join(parts) == data
        with pytest.raises(GoblinError) as caught:
            await hand.put("a" * 64, 3, 0, b"xyz")
        assert caught.value.code == "blob_damaged"

    with_hand(tmp_path, body, cache_bytes=64 * MIB)
    parts = list((tmp_path / "worker").rglob("*.writing"))
    assert parts == []


def test_the_cache_is_bounded_and_what_is_used_stays(tmp_path: Path) -> None:
    async def body(hand: Hand) -> None:
        blobs = [bytes([n]) * MIB for n in range(6)]
        first = str(blob_hash(blobs[0]))
        assert await hand.missing({first: MIB}) == [first]
        names = [await send(hand, data) for data in blobs]
        missing = await hand.missing(dict.fromkeys(names, MIB))
        assert missing == names[1:4]
        await hand.release(names)
        await hand.release([first])
        await send(hand, b"z" * MIB)
        assert first in await hand.missing({first: MIB})

    with_hand(tmp_path, body)


def test_what_a_life_before_kept_is_found_again(tmp_path: Path) -> None:
    async def first(hand: Hand) -> None:
        names.append(await send(hand, b"kept"))

    async def second(hand: Hand) -> None:
        assert await hand.missing({names[0]: 4}) == []

    names: list[str] = []
    with_hand(tmp_path, first)
    with_hand(tmp_path, second)


def test_items_are_done_by_workers_and_checked_apart(tmp_path: Path) -> None:
    a, b, graph = product(24, 16, 20)

    async def body(hand: Hand) -> None:
        await hand.hello()
        names = [await send(hand, one.tobytes()) for one in (a, b)]
        inputs = tuple(
            BlobInput(name, one.nbytes, "float32", one.shape)
            for name, one in zip(names, (a, b), strict=True)
        )
        place = BlobOutput("float32", (24, 20))
        item = Compute("c.1.l", graph, "float32", inputs, (place,), "recompute", 10**7, 15360)
        reply = decode_reply(await hand.run(encode_frame(item)[LENGTH.size :]))
        assert isinstance(reply, Computed), reply
        assert not reply.verified
        made = await hand.piece(reply.output_blobs[0], 0)
        found = np.frombuffer(made, np.float32).reshape(24, 20)
        np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-5)
        committed = (BlobInput(reply.output_blobs[0], len(made), "float32", (24, 20)),)
        check = Check("k.1.l", graph, "float32", inputs, committed, (place,), False)
        verdict = decode_reply(await hand.run(encode_frame(check)[LENGTH.size :]))
        assert isinstance(verdict, Checked)
        assert verdict.accepted
        assert inputs_of(check) == {one.blob: one.nbytes for one in (*inputs, *committed)}

    with_hand(tmp_path, body)


def test_an_item_that_fails_says_so(tmp_path: Path) -> None:
    async def body(hand: Hand) -> None:
        item = Compute("c.1.l", b"", "float32", (), (), "recompute", 1, 1)
        early = decode_reply(await hand.run(encode_frame(item)[LENGTH.size :]))
        assert isinstance(early, Failed)
        assert early.code == "ray_item_refused"
        await hand.hello()
        reply = decode_reply(await hand.run(encode_frame(item)[LENGTH.size :]))
        assert isinstance(reply, Failed)
        assert reply.work == "c.1.l"

    with_hand(tmp_path, body)


def test_an_item_that_names_files_is_refused() -> None:
    source = RegionInput(ArrayFile("npy", "/x", "float32", (2,)), Box((0,), (2,)))
    with pytest.raises(GoblinError) as caught:
        inputs_of(Compute("c.1.l", b"", "float32", (source,), (), "recompute", 1, 1))
    assert caught.value.code == "ray_item_refused"
