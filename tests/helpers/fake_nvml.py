"""A library that answers like NVML for cards that are none: as many as wanted, twins too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class FakeCard:
    """One card. `compute`, `graphics`: memory by process; `busy`: percent by process."""

    uuid: str
    bus: str
    name: str = "Twin 12 GB"
    celsius: int = 50
    compute: Mapping[int, int] = field(default_factory=dict)
    graphics: Mapping[int, int] = field(default_factory=dict)
    busy: Mapping[int, int] = field(default_factory=dict)
    limit_mw: int = 350_000
    bounds_mw: tuple[int, int] = (100_000, 400_000)
    default_mw: int = 350_000
    may_set: bool = True
    is_lost: bool = False
    is_silent: bool = False


class FakeNvml:
    """The functions that the probe calls. `is_down`: the driver as a whole does not answer.

    As the library does, it counts its openings and asks the driver only at the first: after
    `reload` every call is refused until it was closed as often as opened, and opened again.
    """

    NVML_TEMPERATURE_GPU = 0
    NVML_ERROR_UNINITIALIZED = 1
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_RESET_REQUIRED = 16

    class NVMLError(Exception):
        """As the library's own."""

        def __init__(self, said: str, value: int = 999) -> None:
            super().__init__(said)
            self.value = value

    def __init__(self, cards: list[FakeCard]) -> None:
        self.cards = cards
        self.is_down = False
        self.opened = 0
        self.users = 0
        self.stale = 0
        self.limits_set: list[tuple[str, int]] = []

    def reload(self, error: int = NVML_ERROR_GPU_IS_LOST) -> None:
        """The driver is another one from now on; what was opened is refused with this error."""
        self.stale = error if self.users else 0
        for card in self.cards:
            card.limit_mw = card.default_mw

    def nvmlInit(self) -> None:
        self.opened += 1
        self.users += 1

    def nvmlShutdown(self) -> None:
        self._ask()
        self.users -= 1
        if not self.users:
            self.stale = 0

    def _ask(self) -> None:
        if not self.users:
            raise self.NVMLError("Uninitialized", self.NVML_ERROR_UNINITIALIZED)

    def nvmlDeviceGetCount(self) -> int:
        self._ask()
        if self.is_down:
            raise self.NVMLError("GPU access blocked")
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        card = self.cards[index]
        if card.is_lost:
            raise self.NVMLError("GPU is lost", self.NVML_ERROR_GPU_IS_LOST)
        self._fresh()
        return card

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeCard:
        for card in self.cards:
            if card.uuid == uuid and not card.is_lost:
                self._fresh()
                return card
        raise self.NVMLError("Not Found")

    def nvmlDeviceGetPowerManagementDefaultLimit(self, card: FakeCard) -> int:
        return self._told(card, card.default_mw)

    def nvmlDeviceGetPowerManagementLimit(self, card: FakeCard) -> int:
        return self._told(card, card.limit_mw)

    def nvmlDeviceGetPowerManagementLimitConstraints(self, card: FakeCard) -> list[int]:
        return self._told(card, list(card.bounds_mw))

    def nvmlDeviceSetPowerManagementLimit(self, card: FakeCard, limit_mw: int) -> None:
        if not card.may_set:
            raise self.NVMLError("Insufficient Permissions")
        if not card.bounds_mw[0] <= limit_mw <= card.bounds_mw[1]:
            raise self.NVMLError("Invalid Argument")
        self.limits_set.append((card.uuid, limit_mw))
        card.limit_mw = limit_mw

    def nvmlDeviceGetUUID(self, card: FakeCard) -> str:
        return card.uuid

    def nvmlDeviceGetPciInfo(self, card: FakeCard) -> Any:
        return SimpleNamespace(busId=card.bus.encode())

    def nvmlDeviceGetName(self, card: FakeCard) -> str:
        return card.name

    def nvmlDeviceGetTemperature(self, card: FakeCard, _: int) -> int:
        return self._told(card, card.celsius)

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard) -> Any:
        return self._told(card, SimpleNamespace(total=12 * 2**30))

    def nvmlDeviceGetPowerUsage(self, card: FakeCard) -> int:
        return self._told(card, 30_000)

    def nvmlDeviceGetTotalEnergyConsumption(self, card: FakeCard) -> int:
        return self._told(card, 1000)

    def nvmlDeviceGetComputeRunningProcesses(self, card: FakeCard) -> list[Any]:
        return self._told(card, _processes(card.compute))

    def nvmlDeviceGetGraphicsRunningProcesses(self, card: FakeCard) -> list[Any]:
        return self._told(card, _processes(card.graphics))

    def nvmlDeviceGetProcessUtilization(self, card: FakeCard, _: int) -> list[Any]:
        return self._told(
            card,
            [SimpleNamespace(pid=pid, smUtil=busy, timeStamp=5) for pid, busy in card.busy.items()],
        )

    def _fresh(self) -> None:
        self._ask()
        if self.stale:
            raise self.NVMLError("GPU is lost", self.stale)

    def _told(self, card: FakeCard, answer: Any) -> Any:
        self._fresh()
        if card.is_silent:
            raise self.NVMLError("Not Supported")
        return answer


def _processes(memory: Mapping[int, int]) -> list[Any]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in memory.items()]
