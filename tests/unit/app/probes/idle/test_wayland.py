"""The idle notifier, against a compositor that speaks the wire; version 1 and 2; hostile ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.probes.idle.source import Input
from app.probes.idle.wayland import (
    IDLE_AFTER_S,
    POLITE,
    RAW,
    NotifierAbsent,
    display_path,
    watch_wayland,
)
from tests.helpers.desktop import Compositor

IDLED, RESUMED = 0, 1


def watched(path: Path, compositor: Compositor, events: list[tuple[int, int]]) -> list[Input]:
    """What is told after the greeting and after each event."""
    told: list[Input] = []

    async def script() -> None:
        await compositor.start()
        watch = asyncio.ensure_future(watch_wayland(path, lambda: 100.0, told.append))
        try:
            await asyncio.wait_for(heard(1), 5)
            for number, (sender, opcode) in enumerate(events):
                compositor.send(sender, opcode)
                await asyncio.wait_for(heard(number + 2), 5)
        finally:
            watch.cancel()
            await asyncio.wait([watch])
            await compositor.close()

    async def heard(count: int) -> None:
        while len(told) < count:
            await asyncio.sleep(0.002)

    asyncio.run(script())
    return told


def test_version_1_knows_idle_and_active(tmp_path: Path) -> None:
    path = tmp_path / "wayland-0"
    told = watched(path, Compositor(path, 1), [(POLITE, IDLED), (POLITE, RESUMED)])
    assert told == [
        Input(100.0, is_active=True), Input(100.0 - IDLE_AFTER_S), Input(100.0, is_active=True)
    ]  # fmt: skip


def test_version_2_tells_a_film_from_a_person(tmp_path: Path) -> None:
    path = tmp_path / "wayland-0"
    told = watched(path, Compositor(path, 2), [(RAW, IDLED), (POLITE, IDLED), (RAW, RESUMED)])
    assert told[1] == Input(100.0 - IDLE_AFTER_S, awake_for="a program")
    assert told[2] == Input(100.0 - IDLE_AFTER_S)
    assert told[3] == Input(100.0, is_active=True)


def failing(path: Path, compositor: Compositor, data: bytes | None) -> BaseException:
    async def script() -> BaseException:
        await compositor.start()
        told: list[Input] = []
        watch = asyncio.ensure_future(watch_wayland(path, lambda: 1.0, told.append))
        if data is not None:
            while not told:
                await asyncio.sleep(0.002)
            compositor.raw(data)
            await asyncio.sleep(0)
            if not data:
                await compositor.close()
        await asyncio.wait([watch], timeout=5)
        await compositor.close()
        found = watch.exception()
        assert found is not None
        return found

    return asyncio.run(script())


def test_a_compositor_without_a_notifier_says_so(tmp_path: Path) -> None:
    path = tmp_path / "w"
    found = failing(path, Compositor(path, 0), None)
    assert isinstance(found, NotifierAbsent)
    assert "no idle notifier" in str(found)


@pytest.mark.parametrize(
    "data",
    [
        b"\x01\0\0\0\0\0\xff\xff" + b"x" * 100,  # a length of 65535
        b"\x01\0\0\0\0\0\x04\0",  # shorter than its head
        b"\x02\0\0\0\0\0\x0c\0\0\0\0\0",  # an announcement without a name
        b"\x01\0\0\0\0\0\x08\0",  # an error
        b"",  # it closes
    ],
)
def test_a_hostile_compositor_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "w"
    assert isinstance(failing(path, Compositor(path), data), (ValueError, EOFError))


def test_where_a_compositor_listens() -> None:
    assert display_path({}) is None
    assert display_path({"WAYLAND_DISPLAY": "/run/w"}) == Path("/run/w")
    runtime = {"WAYLAND_DISPLAY": "wayland-1", "XDG_RUNTIME_DIR": "/run/user/1"}
    assert display_path(runtime) == Path("/run/user/1/wayland-1")
    assert display_path({"WAYLAND_DISPLAY": "wayland-1"}) is None
