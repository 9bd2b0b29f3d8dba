from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.stages import stage
from app.engine.backends.vulkan import recording
from app.engine.backends.vulkan.device import Device
from app.engine.backends.vulkan.memory import Block
from app.engine.backends.vulkan.recording import HEADER, Commands, Pipelines, Queue
from tests.helpers.cards import OpenCard


@pytest.fixture
def pipelines(card: OpenCard) -> Iterator[Pipelines]:
    found = Pipelines(card.device)
    yield found
    found.close()
    found.close()


@pytest.fixture
def queue(card: OpenCard) -> Iterator[Queue]:
    found = Queue(card.device)
    yield found
    found.close()


def test_recorded_once_submitted_twice(card: OpenCard, pipelines: Pipelines, queue: Queue) -> None:
    seen, private = Block(card.device, 4096, visible=True), Block(card.device, 4096)
    commands = Commands(card.device, pipelines, stamps=2)
    commands.stamp(0)
    commands.copy(seen, 0, private, 1024, 1024)
    commands.barrier()
    commands.fill(private, 1024, 4, 0x01020304)
    commands.barrier()
    commands.copy(private, 1024, seen, 2048, 1024)
    commands.for_host()
    commands.stamp(1)
    commands.end()
    for value in (5, 9):
        seen.bytes[:1024] = value
        number = queue.submit(commands)
        while not queue.wait(number):
            pass
        assert seen.bytes[2048:2052].tolist() == [4, 3, 2, 1]
        assert set(seen.bytes[2052:3072].tolist()) == {value}
    first, second = commands.stamps_ns()
    assert second >= first
    commands.close()
    seen.close()
    private.close()


def test_wait_for_what_was_not_submitted_ends(queue: Queue) -> None:
    assert not queue.wait(1, limit_ns=1000)


def test_exported_kernels_are_taken_back_and_nobody_elses(pipelines: Pipelines) -> None:
    kernel = Kernel(1, 32)
    kernel.store(0, kernel.local(), kernel.number("uint32", 5))
    words = stage(kernel, 1).words
    pipelines.compile(words)
    exported = pipelines.export()
    assert pipelines.load(exported)
    pipelines.compile(words)
    assert pipelines.export()[: HEADER.size] == exported[: HEADER.size]
    for place in (0, 4, 8, 12, 16, 31):  # length, version, vendor, device, the driver's mark
        damaged = bytearray(exported)
        damaged[place] ^= 1
        assert not pipelines.load(bytes(damaged))
    assert not pipelines.load(exported[: HEADER.size - 1])
    assert not pipelines.load(b"")


def test_what_the_driver_keeps_does_not_grow_without_end(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.backends.vulkan.recording.MOST_CACHED", 2)
    made: list[bytes] = []
    real = recording._made_cache

    def counted(device: Device, data: bytes) -> object:
        made.append(data)
        return real(device, data)

    monkeypatch.setattr("app.engine.backends.vulkan.recording._made_cache", counted)
    exported = pipelines.export()
    assert pipelines.load(exported)
    kernel = Kernel(1, 32)
    kernel.store(0, kernel.local(), kernel.number("uint32", 5))
    for _ in range(5):
        pipelines.compile(stage(kernel, 1).words)
    assert made == [exported] * 3
