"""What comes and goes, by a monitor that stands for udev's."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from app.probes import hotplug
from app.probes.hotplug import SUBSYSTEMS, HotPlug


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


class Flooded(Monitor):
    """One whose reading fails as pyudev's does: without a number of the error."""

    fails = 1

    def poll(self, timeout: int) -> Any:
        if self.fails:
            self.fails -= 1
            raise OSError("Error while polling fd: 3")
        return super().poll(timeout)


@pytest.mark.parametrize("number", [errno.ENOBUFS, errno.EBADF])
def test_what_was_lost_may_be_anything_and_a_broken_monitor_is_left(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hotplug, "_take_error", lambda descriptor: number)

    async def script() -> list[str]:
        told: list[str] = []
        broken: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
        monitor = Flooded()
        watch = HotPlug(told.append, monitor)
        watch.start()
        monitor.plug("input")
        await asyncio.sleep(0.05)
        watch.close()
        os.close(monitor.read)
        os.close(monitor.write)
        assert broken == []
        return told

    everything = sorted(SUBSYSTEMS)
    assert asyncio.run(script()) == [*everything, *(["input"] if number == errno.ENOBUFS else [])]


def test_the_error_of_a_descriptor_is_taken_once() -> None:
    read, write = os.pipe()
    assert hotplug._take_error(read) == 0  # no socket
    os.close(read)
    os.close(write)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        assert hotplug._take_error(one.fileno()) == 0


def test_more_messages_than_the_kernel_keeps_do_not_end_the_agent() -> None:
    pyudev = pytest.importorskip("pyudev")
    if os.geteuid() != 0:
        pytest.skip("only root may speak in the kernel's place")
    monitor = pyudev.Monitor.from_netlink(pyudev.Context())
    monitor.start()
    with socket.socket(fileno=os.dup(monitor.fileno())) as same:  # so that nobody else's is full
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as kernel:  # NETLINK_KOBJECT_UEVENT
        for _ in range(20):
            kernel.sendto(b"x" * 1000, (0, 2))  # the group of udev's own messages

    async def script() -> list[str]:
        told: list[str] = []
        watch = HotPlug(told.append, monitor)
        watch.start()
        await asyncio.sleep(0.05)
        assert watch._monitor is monitor
        watch.close()
        return told

    assert set(asyncio.run(script())) == set(SUBSYSTEMS)
