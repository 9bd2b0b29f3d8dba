"""NVIDIA's own library, through pynvml: temperatures, fans, power, memory, and who uses a card.

Owns: the calls. Must not: change a card. The library is loaded only where its driver is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.policy.snapshot import CardFacts, ForeignUse, Sensor
from app.probes.gpus.names import is_desktop, program_of
from app.probes.gpus.nvml_door import door_of

__all__ = ["Nvml", "NvmlCard", "load_nvml"]

DRIVER: Final = Path("/proc/driver/nvidia/version")
MOST_CARDS: Final = 64
MOST_PROCESSES: Final = 1024


@dataclass(frozen=True, slots=True)
class NvmlCard:
    """One card under both of its names, with its facts. `energy_mj`: since the driver's start."""

    uuid: str
    address: str
    name: str
    facts: CardFacts
    energy_mj: int | None = None


def load_nvml(driver: Path = DRIVER) -> Any:
    """The library's module; None where this machine has no such driver."""
    if not driver.exists():
        return None
    import pynvml

    return pynvml


class Nvml:
    """Looks at all cards of the driver. Used in one thread.

    Args:
        library: the module, or another that answers like it.
        ours: the processes that are ours.
        program: the name of a process's program.
    """

    def __init__(
        self,
        library: Any,
        ours: Callable[[], Iterable[int]],
        program: Callable[[int], str] = program_of,
    ) -> None:
        self._nvml = library
        self._ours = ours
        self._program = program
        self._door = door_of(library)
        self._faults: list[Exception] = []
        self._seen_us: dict[str, int] = {}
        self._last: dict[str, NvmlCard] = {}

    def look(self) -> tuple[NvmlCard, ...]:
        """All cards, those that the driver has lost since the start with their trouble.

        Raises:
            the library's errors: the driver as a whole does not answer.
        """
        nvml = self._nvml
        opening = self._door.open()
        self._faults.clear()
        try:
            count = min(nvml.nvmlDeviceGetCount(), MOST_CARDS)
        except nvml.NVMLError:
            self._door.shut(opening)  # the driver may have been reset: anew at the next look
            raise
        ours = set(self._ours())
        found = [card for index in range(count) if (card := self._card(index, ours)) is not None]
        for fault in self._faults:
            self._door.renew(opening, fault)
        seen = {card.uuid: card for card in found}
        lost = [_lost(card) for uuid, card in self._last.items() if uuid not in seen]
        self._last |= seen
        return (*found, *lost)

    def _card(self, index: int, ours: set[int]) -> NvmlCard | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
            address = _address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId))
        except nvml.NVMLError as error:
            self._faults.append(error)
            return None
        celsius = self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        limit_mw = self._ask(getattr(nvml, "nvmlDeviceGetPowerManagementLimit", None), handle)
        default_mw = self._ask(
            getattr(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", None), handle
        )
        foreign, used_bytes = self._users(handle, uuid, ours)
        facts = CardFacts(
            0,
            "cuda",
            sensors=None if celsius is None else (Sensor("core", "core", float(celsius)),),
            fan_rpm=self._ask(getattr(nvml, "nvmlDeviceGetFanSpeedRPM", None), handle),
            foreign=foreign,
            memory_bytes=None if memory is None else int(memory.total),
            memory_used_bytes=used_bytes,
            power_w=None if milliwatts is None else round(milliwatts / 1000.0),
            limit_w=None if limit_mw is None else limit_mw / 1000.0,
            default_w=None if default_mw is None else default_mw / 1000.0,
        )
        name = self._ask(nvml.nvmlDeviceGetName, handle)
        energy = self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        return NvmlCard(uuid, address, _text(name or ""), facts, energy)

    def _ask(self, call: Callable[..., Any] | None, *arguments: Any) -> Any:
        """The answer of one call; None where the card does not tell."""
        if call is None:
            return None
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            self._faults.append(error)
            return None

    def _users(
        self, handle: Any, uuid: str, ours: set[int]
    ) -> tuple[tuple[ForeignUse, ...] | None, int | None]:
        """Who uses the card (None: the driver does not tell), and how much memory they have."""
        nvml = self._nvml
        listed = [
            self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle),
            self._ask(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle),
        ]
        if all(each is None for each in listed):
            return None, None
        busy = self._busy(handle, uuid)
        memory: dict[int, int] = {}
        for each in [*(listed[0] or []), *(listed[1] or [])][:MOST_PROCESSES]:
            memory[each.pid] = max(memory.get(each.pid, 0), each.usedGpuMemory or 0)
        uses = []
        for pid in sorted(memory.keys() | busy.keys()):
            if pid in ours:
                continue
            program = self._program(pid) or f"process {pid}"
            if not is_desktop(program):
                uses.append(ForeignUse(program, memory.get(pid, 0), busy.get(pid)))
        used_bytes = sum(size for pid, size in memory.items() if pid not in ours)
        return tuple(uses), used_bytes

    def _busy(self, handle: Any, uuid: str) -> dict[int, float]:
        """Percent of the card's time by process, in the last second or so."""
        samples = self._ask(
            self._nvml.nvmlDeviceGetProcessUtilization, handle, self._seen_us.get(uuid, 0)
        )
        found: dict[int, float] = {}
        for sample in (samples or [])[:MOST_PROCESSES]:
            found[sample.pid] = max(found.get(sample.pid, 0.0), float(sample.smUtil))
            self._seen_us[uuid] = max(self._seen_us.get(uuid, 0), sample.timeStamp)
        return found


def _lost(card: NvmlCard) -> NvmlCard:
    facts = CardFacts(0, "cuda", trouble="its driver has lost it")
    return NvmlCard(card.uuid, card.address, card.name, facts)


def _address(bus: str) -> str:
    """NVML's `00000000:01:00.0` as the kernel writes it."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
