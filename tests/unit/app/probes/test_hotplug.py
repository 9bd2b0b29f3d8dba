"""What comes and goes, by a monitor that stands for udev's."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

from app.probes.hotplug import HotPlug


class Monitor:
    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self.waiting: list[str] = []

    def fileno(self) -> int:
        return self.read

    def poll(self, timeout: int) -> Any:
        if not self.waiting:
            return None
        os.read(self.read, 1)
        return SimpleNamespace(subsystem=self.waiting.pop(0))

    def plug(self, *names: str) -> None:
        self.waiting += names
        os.write(self.write, b"x" * len(names))


def test_each_subsystem_is_told_once() -> None:
    async def script() -> list[str]:
        told: list[str] = []
        monitor = Monitor()
        watch = HotPlug(told.append, monitor)
        assert watch.start() == ""
        monitor.plug("drm", "drm", "input")
        await asyncio.sleep(0.05)
        watch.close()
        os.close(monitor.read)
        os.close(monitor.write)
        return told

    assert asyncio.run(script()) == ["drm", "input"]


def test_without_udev_it_says_so() -> None:
    class Broken:
        def fileno(self) -> int:
            raise OSError("no netlink")

    async def script() -> str:
        return HotPlug(lambda _: None, Broken()).start()

    assert "no netlink" in asyncio.run(script())
