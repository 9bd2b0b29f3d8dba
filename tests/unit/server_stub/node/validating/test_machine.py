"""The program of a validator: it goes on whatever the node says, and takes no other bytes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.errors import NodeError
from server_stub.node.validating.machine import Machine, NodeDoor
from server_stub.node.validating.words import ANSWER_PATH, TAKE_PATH, Take
from server_stub.node.work import BlobInput, Checked, Compare, Failed
from server_stub.node.workers.frames import LENGTH, decode_reply, encode_frame
from tests.helpers.judges import Judge

__all__: list[str] = []


class Script:
    """A door that gives what the test says, then nothing for ever; `said` keeps what it heard."""

    def __init__(self, *frames: bytes, blob: bytes = b"") -> None:
        self.frames = list(frames)
        self.blob = blob
        self.heard: list[tuple[str, str, bytes]] = []
        self.trouble: NodeError | None = None
        self.closed = 0

    def call(self, method: str, path: str, body: bytes, limit: int) -> bytes:
        self.heard.append((method, path, body))
        if method == "GET":
            return self.blob
        if path == TAKE_PATH and self.trouble is not None:
            raise self.trouble
        return self.frames.pop(0) if path == TAKE_PATH and self.frames else b""

    def close(self) -> None:
        self.closed += 1


def play(door: Script, judge: Judge, until_s: float = 0.3) -> Machine:
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)
        await asyncio.sleep(0.01)

    async def body() -> Machine:
        machine = Machine(lambda: door, judge, at_once=1, sleep=sleep)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(machine.run(), until_s)
        return machine

    return asyncio.run(body())


def frame(blob: str) -> bytes:
    one = BlobInput(blob, 4, "float32", (1,))
    return encode_frame(Compare("compare.1", b"", "float32", (one,), (one,), 1))[LENGTH.size :]


def test_an_item_is_fetched_judged_and_answered(tmp_path: Path) -> None:
    judge = Judge(tmp_path)
    data = bytes(4)
    blob = str(judge.store.put(data))
    judge.store.delete(blob)

    class Yes:
        async def run(self, work: object) -> Checked:
            return Checked("compare.1", True, "", 0.0, 1.0)

    judge.workers = Yes()  # type: ignore[assignment]  # it answers as the pool would
    door = Script(frame(blob), blob=data)
    machine = play(door, judge)
    (answer,) = [body for _, path, body in door.heard if path == ANSWER_PATH]
    assert decode_reply(answer) == Checked("compare.1", True, "", 0.0, 1.0)
    assert judge.store.has(blob)
    assert (machine.done, door.closed) == (1, 2)
    heard = [msgspec.json.decode(body, type=Take) for _, path, body in door.heard
             if path == TAKE_PATH]  # fmt: skip
    assert {take.want for take in heard} == {True, False}
    assert heard[-1].has == ()


def test_a_blob_of_another_size_is_not_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    door = Script(frame("ab" * 32), blob=bytes(5))
    with caplog.at_level(logging.WARNING):
        machine = play(door, Judge(tmp_path))
    assert machine.done == 0
    assert "a blob of another size" in caplog.text
    (answer,) = [body for _, path, body in door.heard if path == ANSWER_PATH]
    assert isinstance(decode_reply(answer), Failed)  # the node need not wait for it


def test_what_it_works_on_is_said_meanwhile(tmp_path: Path) -> None:
    judge = Judge(tmp_path)
    judge.hold = asyncio.Event()
    door = Script(frame(str(judge.store.put(bytes(4)))))
    play(door, judge)
    last = [body for _, path, body in door.heard if path == TAKE_PATH][-1]
    assert msgspec.json.decode(last, type=Take) == Take(
        msgspec.json.decode(last, type=Take).version, catalog_hash(), False, ("compare.1",)
    )


def test_each_trouble_is_said_once_and_asked_through(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    door = Script()
    door.trouble = NodeError("validator_unknown", key="ab")
    with caplog.at_level(logging.WARNING):
        play(door, Judge(tmp_path))
    assert len(door.heard) > 3
    assert caplog.text.count("validator_unknown") == 1


def test_a_node_that_is_not_there_has_a_code() -> None:
    door = NodeDoor("https://127.0.0.1:9", "ab" * 32, Ed25519PrivateKey.generate())
    with pytest.raises(NodeError) as caught:
        door.call("POST", TAKE_PATH, b"", 10)
    assert caught.value.code == "node_away"
    door.close()
