"""The bridge: seats follow the cluster, items go there and back, what is lost is said."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import NodeError
from server_stub.node.executors import ray_bridge
from server_stub.node.executors.ray_bridge import Bridge
from server_stub.node.executors.ray_hand import PIECE_BYTES
from server_stub.node.executors.ray_words import (
    Answer,
    BridgeConfig,
    Do,
    Drop,
    Lost,
    Said,
    Seats,
    Trouble,
    decode_said,
)
from server_stub.node.work import BlobInput, Compute, Computed, Failed
from server_stub.node.workers.frames import LENGTH
from tests.helpers.fake_ray import FakeRay
from tests.unit.server_stub.node.executors.test_ray_hand import config as hand_config

__all__: list[str] = []

ONE: dict[str, float] = {"CPU": 1.0}


class Desk:
    """The pool of a hand, in this process: it says which blobs it read."""

    hold: asyncio.Event | None = None

    def __init__(self, store: BlobStore) -> None:
        self._store = store

    async def run(self, work: Any) -> Any:
        if Desk.hold is not None:
            await Desk.hold.wait()
        parts = []
        for one in work.inputs:
            with self._store.open_read(one.blob) as reader:
                parts.append(reader.read())
        made = b"+".join(parts)
        blob = str(self._store.put(made))
        return Computed(work.work, ("",) * len(parts), (blob,), (len(made),), False, "", "b", "d",
                        "k", "none", 0.1, 1)  # fmt: skip

    async def stop(self) -> None:
        pass


class Case:
    """A bridge with a fake cluster, and what it says."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.ray = FakeRay(self._hand)
        self.config = msgspec.json.decode(hand_config(root, **changes), type=BridgeConfig)
        self.store = BlobStore(self.config.blob_root, 0)
        self.said: list[Said] = []
        self.marker: str | None = None
        self.bridge: Bridge
        self.watching: asyncio.Task[None]

    def _hand(self, *given: Any) -> Any:
        from server_stub.node.executors.ray_hand import Hand

        told = list(given)
        if self.marker is not None:
            told[3] = self.marker
        hand = Hand(*told)
        hand._pool = Desk(hand._store)  # type: ignore[assignment]
        return hand

    async def open(self) -> None:
        ours, theirs = socket.socketpair()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=theirs)
        _, writer = await asyncio.open_unix_connection(sock=ours)
        self._ours = writer
        self.bridge = Bridge(self.config, self.ray, lambda machine: machine, writer)
        self.bridge.connect()
        self._hearing = asyncio.create_task(self._hear())
        self.watching = asyncio.create_task(self.bridge.watch())

    async def _hear(self) -> None:
        while True:
            size = LENGTH.unpack(await self._reader.readexactly(4))[0]
            self.said.append(decode_said(await self._reader.readexactly(size)))

    async def close(self) -> None:
        self.watching.cancel()
        await self.bridge.close()
        self._hearing.cancel()
        await asyncio.gather(self.watching, self._hearing, return_exceptions=True)
        self._writer.close()
        self._ours.close()

    def seats(self) -> list[str]:
        told = [one for one in self.said if isinstance(one, Seats)]
        return sorted(seat.seat for seat in told[-1].seats) if told else []

    def put(self, data: bytes) -> BlobInput:
        return BlobInput(str(self.store.put(data)), len(data), "uint8", (len(data),))

    async def until(self, condition: Callable[[], object]) -> None:
        for _ in range(2000):
            if condition():
                return
            await asyncio.sleep(0.002)
        raise AssertionError(f"it does not happen: {self.said}")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_bridge, "LOOK_S", 0.01)
    monkeypatch.setattr(ray_bridge, "PING_S", 0.01)
    monkeypatch.setattr(ray_bridge, "REST_S", (0.01, 0.02))
    Desk.hold = None


def play(case: Case, body: Callable[[Case], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await case.open()
        try:
            await body(case)
        finally:
            await case.close()

    asyncio.run(run())


def item(*inputs: BlobInput, work: str = "compute.1.l") -> Compute:
    return Compute(work, b"", "float32", inputs, (), "recompute", 1, 1)


def test_seats_follow_the_cluster(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        await case.until(lambda: any(isinstance(one, Trouble) for one in case.said))
        case.ray.machines["a"] = ONE
        await case.until(lambda: case.seats() == ["a"])
        case.ray.machines["b"] = {"CPU": 4.0}
        case.ray.machines["head"] = {"memory": 1.0}
        await case.until(lambda: case.seats() == ["a", "b"])
        del case.ray.machines["a"]
        await case.until(lambda: case.seats() == ["b"])
        await case.until(lambda: len(case.ray.killed) == 1)
        assert [options["num_cpus"] for options in case.ray.started] == [1, 4]

    case = Case(tmp_path, threads=0)
    play(case, body)
    troubles = [one.code for one in case.said if isinstance(one, Trouble)]
    assert troubles[:2] == ["ray_no_worker", ""]


def test_only_machines_with_the_resource_are_used(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.ray.machines["a"] = ONE
        case.ray.machines["b"] = {**ONE, "lab": 2.0}
        await case.until(lambda: case.seats() == ["b"])

    case = Case(tmp_path, resource="lab")
    play(case, body)
    assert [options["resources"] for options in case.ray.started] == [{"lab": 0.001}]


@pytest.mark.parametrize("shares", [True, False])
def test_an_item_goes_there_and_its_result_comes_back(tmp_path: Path, shares: bool) -> None:
    large = bytes(range(251)) * (2 * PIECE_BYTES // 251)

    async def body(case: Case) -> None:
        case.ray.machines["a"] = ONE
        await case.until(lambda: case.seats() == ["a"])
        case.bridge.order(Do("a", item(case.put(large), case.put(b"right"))))
        await case.until(lambda: any(isinstance(one, Answer) for one in case.said))

    case = Case(tmp_path, cache_bytes=64 * 2**20)
    case.marker = None if shares else "of another disk"
    play(case, body)
    (answer,) = [one for one in case.said if isinstance(one, Answer)]
    assert isinstance(answer.reply, Computed)
    with case.store.open_read(answer.reply.output_blobs[0]) as reader:
        assert reader.read() == large + b"+right"
    sent = [size for _, name, size in case.ray.calls if name == "put"]
    assert (len(sent) >= 3) is (not shares)
    assert max(sent, default=0) <= PIECE_BYTES + 100
    released = [name for _, name, _ in case.ray.calls if name == "release"]
    assert len(released) == (0 if shares else 1)


def test_what_a_lost_machine_had_is_said_once(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        Desk.hold = asyncio.Event()
        case.ray.machines["a"] = ONE
        await case.until(lambda: case.seats() == ["a"])
        case.bridge.order(Do("a", item(case.put(b"x"))))
        await case.until(lambda: any(name == "run" for _, name, _ in case.ray.calls))
        del case.ray.machines["a"]
        Desk.hold.set()
        await case.until(lambda: case.seats() == [])
        await case.until(lambda: any(isinstance(one, Lost) for one in case.said))
        case.bridge.order(Do("a", item(work="compute.2.l")))
        await case.until(lambda: sum(isinstance(one, Lost) for one in case.said) == 2)

    case = Case(tmp_path)
    play(case, body)
    assert [one.work for one in case.said if isinstance(one, Lost)] == [
        "compute.1.l",
        "compute.2.l",
    ]
    assert not any(isinstance(one, Answer) for one in case.said)


def test_a_worker_that_dies_on_a_machine_that_lives_is_started_again(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.ray.machines["a"] = ONE
        await case.until(lambda: case.seats() == ["a"])

        async def dead() -> int:
            raise RuntimeError("The actor died.")

        case.ray.actors["a"].made.ping = dead
        await case.until(lambda: len(case.ray.started) == 2)
        await case.until(lambda: case.seats() == ["a"])

    play(Case(tmp_path), body)


def test_a_machine_where_nothing_starts_is_named_and_tried_again(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.ray.machines["a"] = ONE
        await case.until(lambda: len(case.ray.started) >= 3)

    case = Case(tmp_path, version="7.7")
    play(case, body)
    codes = {one.code for one in case.said if isinstance(one, Trouble)}
    assert "ray_worker_differs" in codes
    assert case.seats() == []


def test_an_item_that_fails_is_answered(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.ray.machines["a"] = ONE
        await case.until(lambda: case.seats() == ["a"])
        gone = BlobInput("b" * 64, 3, "uint8", (3,))
        case.bridge.order(Do("a", item(gone)))
        await case.until(lambda: any(isinstance(one, Answer) for one in case.said))

    case = Case(tmp_path)
    play(case, body)
    (answer,) = [one for one in case.said if isinstance(one, Answer)]
    assert isinstance(answer.reply, Failed)
    assert answer.reply.code == "blob_missing"


def test_what_is_not_wanted_is_dropped(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        Desk.hold = asyncio.Event()
        case.ray.machines["a"] = ONE
        await case.until(lambda: case.seats() == ["a"])
        case.bridge.order(Do("a", item()))
        await asyncio.sleep(0.01)
        case.bridge.order(Drop("compute.1.l"))
        Desk.hold.set()
        await asyncio.sleep(0.05)

    case = Case(tmp_path)
    play(case, body)
    assert not any(isinstance(one, (Answer, Lost)) for one in case.said)


def test_a_head_that_dies_ends_the_watch_with_its_code(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.ray.machines["a"] = ONE
        await case.until(lambda: case.seats() == ["a"])
        case.ray.reachable = False
        with pytest.raises(NodeError) as caught:
            await asyncio.wait_for(asyncio.shield(case.watching), 10.0)
        assert caught.value.code == "ray_unreachable"
        assert "Failed to connect" in str(caught.value)

    play(Case(tmp_path), body)


def test_no_head_at_the_start_is_said(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.ray.reachable = False
    bridge = Bridge(case.config, case.ray, str, cast(Any, None))
    with pytest.raises(NodeError, match="The head is not there"):
        bridge.connect()


def test_without_ray_the_process_says_what_is_missing(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from server_stub.node.executors.ray_bridge import main; main(sys.argv[1:])"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        text = hand_config(tmp_path).decode()
        done = subprocess.run(
            [sys.executable, "-c", code, "--fd", str(theirs.fileno()), "--config", text],
            pass_fds=(theirs.fileno(),), check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        head = ours.recv(4)
        said = decode_said(ours.recv(LENGTH.unpack(head)[0]))
    assert isinstance(said, Trouble)
    assert said.code == "ray_missing"
