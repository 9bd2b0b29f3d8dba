"""Input devices: what comes is a person, what it says is nobody's business."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from app.probes.idle.devices import DeviceWatch


def test_events_count_and_devices_come_and_go(tmp_path: Path) -> None:
    """A pipe stands for the device: it is read in the same way."""
    first, second = tmp_path / "event0", tmp_path / "event1"
    os.mkfifo(first)

    async def script() -> int:
        came = 0

        def note() -> None:
            nonlocal came
            came += 1

        watch = DeviceWatch(note, tmp_path)
        watch.look()
        assert watch.count == 1
        writer = os.open(first, os.O_WRONLY)
        os.write(writer, b"\0" * 24)
        await asyncio.sleep(0.05)
        os.mkfifo(second)
        watch.look()
        assert watch.count == 2
        os.close(writer)  # unplugged: the end of the file
        await asyncio.sleep(0.05)
        assert watch.count == 1
        watch.close()
        assert watch.count == 0
        return came

    assert asyncio.run(script()) == 1


def test_no_right_to_read_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "event0").symlink_to(tmp_path / "nowhere")

    async def script() -> int:
        watch = DeviceWatch(lambda: None, tmp_path)
        watch.look()
        return watch.count

    assert asyncio.run(script()) == 0
