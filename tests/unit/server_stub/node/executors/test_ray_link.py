"""The node's side of the bridge: its process is started again, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpugoblin.errors import NodeError, VerifyError
from server_stub.node.executors import ray_link
from server_stub.node.executors.ray_link import RayLink, bridge_config
from server_stub.node.executors.ray_words import BridgeConfig
from server_stub.node.work import Compute, Folded
from tests.helpers.node import lab_settings
from tests.unit.server_stub.node.executors.test_ray_hand import config as hand_config

__all__: list[str] = []

BRIDGE = """
import socket, sys, time
from server_stub.node.executors.ray_words import *
from server_stub.node.executors.ray_words import decode_order, encode
from server_stub.node.work import Failed, Folded
from server_stub.node.workers.frames import receive_frame
end = socket.socket(fileno=int(sys.argv[1]))
kind = sys.argv[2]
if kind == "trouble":
    end.sendall(encode(Trouble("ray_unreachable", {"address": "h:1", "reason": "no head"})))
    sys.exit(1)
if kind == "noise":
    end.sendall(b"\\xff\\xff\\xff\\x7f")
    time.sleep(60)
end.sendall(encode(Seats((Seat("m", "host", 1, 2, 1, 0, True),))))
while (body := receive_frame(end.recv)) is not None:
    order = decode_order(body)
    if isinstance(order, Drop):
        end.sendall(encode(Lost("dropped", order.work)))
        continue
    name = order.work.work
    if name == "die":
        sys.exit(3)
    if name == "wait":
        continue
    if name == "lost":
        end.sendall(encode(Lost(name, "power cut")))
    elif name == "fails":
        answer = Failed(name, "VerifyError", "worker_protocol", {"reason": "r"})
        end.sendall(encode(Answer(answer)))
    else:
        end.sendall(encode(Answer(Folded(name))))
"""


def item(work: str) -> Compute:
    return Compute(work, b"", "float32", (), (), "recompute", 1, 1)


def play(
    root: Path, body: Callable[[RayLink, list[int]], Coroutine[Any, Any, None]], kind: str = "",
    then: str = "",
) -> RayLink:  # fmt: skip
    kinds = [kind, then]
    config = msgspec.json.decode(hand_config(root), type=BridgeConfig)

    def arguments(descriptor: int) -> list[str]:
        now = kinds.pop(0) if len(kinds) > 1 else kinds[0]
        return [sys.executable, "-c", BRIDGE, str(descriptor), now]

    link = RayLink(config, arguments)

    async def run() -> None:
        changes: list[int] = []
        await link.start(lambda: changes.append(len(link.seats)))
        try:
            await body(link, changes)
        finally:
            await link.stop()
        assert link.process is None

    asyncio.run(run())
    return link


async def until(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not happen")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_link, "REST_S", (0.01, 0.02))


def test_items_are_answered_refused_and_lost(tmp_path: Path) -> None:
    async def body(link: RayLink, changes: list[int]) -> None:
        with pytest.raises(NodeError) as early:
            await link.run("m", item("early"))
        assert early.value.code == "ray_worker_lost"
        await until(lambda: "m" in link.seats)
        assert await link.run("m", item("good")) == Folded("good")
        with pytest.raises(VerifyError):
            await link.run("m", item("fails"))
        with pytest.raises(NodeError, match="power cut"):
            await link.run("m", item("lost"))
        with pytest.raises(NodeError):
            await link.run("another", item("good"))
        assert changes == [1]

    play(tmp_path, body)


def test_a_bridge_that_dies_costs_what_was_under_way(tmp_path: Path) -> None:
    async def body(link: RayLink, changes: list[int]) -> None:
        await until(lambda: "m" in link.seats)
        first = link.process
        waiting = asyncio.create_task(link.run("m", item("wait")))
        await asyncio.sleep(0.05)
        with pytest.raises(NodeError) as caught:
            await link.run("m", item("die"))
        assert caught.value.code == "ray_worker_lost"
        with pytest.raises(NodeError):
            await waiting
        assert link.trouble is not None
        await until(lambda: "m" in link.seats)
        assert link.process != first
        assert await link.run("m", item("good")) == Folded("good")
        assert changes[:2] == [1, 0]

    play(tmp_path, body)


def test_trouble_is_told_and_over_when_the_head_is_back(tmp_path: Path) -> None:
    async def body(link: RayLink, changes: list[int]) -> None:
        await until(lambda: link.trouble is not None)
        assert link.trouble is not None
        assert "no head" in str(link.trouble)
        await until(lambda: "m" in link.seats)

    play(tmp_path, body, kind="trouble")


def test_noise_ends_the_bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_link, "STOP_S", 0.05)

    async def body(link: RayLink, changes: list[int]) -> None:
        await until(lambda: "m" in link.seats)
        assert link.trouble is not None

    play(tmp_path, body, kind="noise")


def test_whoever_does_not_wait_any_more_says_so(tmp_path: Path) -> None:
    async def body(link: RayLink, changes: list[int]) -> None:
        await until(lambda: "m" in link.seats)
        heard: list[object] = []
        hear = link._hear
        link._hear = lambda said: (heard.append(said), hear(said))[1]  # type: ignore[method-assign,func-returns-value]
        waiting = asyncio.create_task(link.run("m", item("wait")))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await until(lambda: heard)
        assert link._waiting == {}

    play(tmp_path, body)


def test_stopping_ends_a_wait(tmp_path: Path) -> None:
    waiting: list[asyncio.Task[Any]] = []

    async def body(link: RayLink, changes: list[int]) -> None:
        await until(lambda: "m" in link.seats)
        waiting.append(asyncio.create_task(link.run("m", item("wait"))))
        await asyncio.sleep(0.05)
        await link.stop()
        with pytest.raises(NodeError):
            await waiting[0]

    play(tmp_path, body)


def test_a_bridge_is_told_what_the_settings_say(tmp_path: Path) -> None:
    settings = lab_settings(tmp_path, executor="local, ray", ray_address="h:6379", ray_threads=3)
    config = bridge_config(settings, "c" * 64)
    assert (config.address, config.threads, config.catalog_hash) == ("h:6379", 3, "c" * 64)
    assert Path(config.blob_root) == settings.blob_root
    assert config.level == "none"


def test_seats_that_are_gone_are_still_known(tmp_path: Path) -> None:
    async def body(link: RayLink, changes: list[int]) -> None:
        await until(lambda: "m" in link.seats)
        with pytest.raises(NodeError):
            await link.run("m", item("die"))
        await until(lambda: 0 in changes)
        assert link.known["m"].host == "host"

    play(tmp_path, body)
