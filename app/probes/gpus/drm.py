"""Cards and their users by the kernel's own books: /sys/class/drm and the fdinfo of open devices.

Owns: the reading. Must not: look at processes of ours. Format: Linux documentation,
drm-usage-stats. Other users' processes are seen by root only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.policy.snapshot import ForeignUse
from app.probes.files import read_number, read_text
from app.probes.gpus.names import is_desktop, program_of
from gpugoblin.units import KIB

__all__ = ["DrmCard", "DrmUses", "drm_cards"]

DRM: Final = Path("/sys/class/drm")
PROC: Final = Path("/proc")
MOST_CARDS: Final = 64
MOST_DESCRIPTORS: Final = 65_536
NVIDIA: Final = 0x10DE
_CARD: Final = re.compile(r"card\d{1,3}")
_ENGINES: Final = (
    "drm-engine-gfx",
    "drm-engine-compute",
    "drm-engine-render",
    "drm-engine-copy",
)
_MEMORIES: Final = ("drm-total-vram", "drm-total-vram0", "drm-total-local0", "drm-memory-vram")


@dataclass(frozen=True, slots=True)
class DrmCard:
    """One card of the kernel. `address`: PCI, like 0000:01:00.0."""

    address: str
    vendor: int
    memory_bytes: int | None
    memory_used_bytes: int | None


def drm_cards(root: Path = DRM) -> tuple[DrmCard, ...]:
    """All cards that have a PCI address, by address."""
    found: dict[str, DrmCard] = {}
    if not root.exists():
        return ()
    for path in sorted(root.iterdir())[: 4 * MOST_CARDS]:
        if _CARD.fullmatch(path.name) is None:
            continue
        try:
            device = (path / "device").resolve(strict=True)
        except OSError:
            continue
        vendor = read_text(device / "vendor", 16) or ""
        if ":" in device.name and vendor.startswith("0x"):
            found[device.name] = DrmCard(
                device.name,
                int(vendor, 16),
                read_number(device / "mem_info_vram_total"),
                read_number(device / "mem_info_vram_used"),
            )
    return tuple(found.values())


@dataclass(slots=True)
class _Client:
    """One open device of one process."""

    pid: int
    memory_bytes: int
    busy_ns: int


class DrmUses:
    """Looks who uses which card; busy percent is since the last look.

    Args:
        ours: the processes that are ours.
    """

    def __init__(self, ours: Callable[[], Iterable[int]], root: Path = PROC) -> None:
        self._ours = ours
        self._root = root
        self._last: dict[tuple[str, str], int] = {}
        self._last_s = 0.0

    def look(self) -> dict[str, tuple[ForeignUse, ...]]:
        """By PCI address; a card that nobody uses is not in it."""
        now_s = time.monotonic()
        elapsed_s = now_s - self._last_s if self._last_s else 0.0
        clients = self._clients()
        found: dict[str, dict[int, tuple[int, float]]] = {}
        for (address, name), client in clients.items():
            before_ns = self._last.get((address, name), client.busy_ns)
            percent = 0.0
            if elapsed_s > 0:
                percent = 100.0 * max(0, client.busy_ns - before_ns) / (elapsed_s * 1e9)
            memory, busy = found.setdefault(address, {}).get(client.pid, (0, 0.0))
            found[address][client.pid] = (memory + client.memory_bytes, busy + percent)
        self._last = {key: client.busy_ns for key, client in clients.items()}
        self._last_s = now_s
        return {address: self._uses(users) for address, users in found.items()}

    def _uses(self, users: dict[int, tuple[int, float]]) -> tuple[ForeignUse, ...]:
        uses = []
        for pid, (memory, percent) in sorted(users.items()):
            program = program_of(pid, self._root)
            if program and not is_desktop(program):
                uses.append(ForeignUse(program, memory, round(min(100.0, percent), 0)))
        return tuple(uses)

    def _clients(self) -> dict[tuple[str, str], _Client]:
        ours = set(self._ours())
        found: dict[tuple[str, str], _Client] = {}
        left = MOST_DESCRIPTORS
        for name in os.listdir(self._root):
            if not name.isdigit() or int(name) in ours:
                continue
            folder = self._root / name / "fd"
            try:
                descriptors = os.listdir(folder)
            except OSError:
                continue
            for descriptor in descriptors:
                left -= 1
                if left < 0:
                    return found
                self._client(int(name), folder / descriptor, descriptor, found)
        return found

    def _client(
        self, pid: int, link: Path, descriptor: str, found: dict[tuple[str, str], _Client]
    ) -> None:
        try:
            if not os.readlink(link).startswith("/dev/dri/"):
                return
        except OSError:
            return
        text = read_text(self._root / str(pid) / "fdinfo" / descriptor) or ""
        fields = dict(_pair(line) for line in text.splitlines()[:200])
        address, client = fields.get("drm-pdev", ""), fields.get("drm-client-id", "")
        if address and client:
            found[address, client] = _Client(pid, _memory_bytes(fields), _busy_ns(fields))


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def _memory_bytes(fields: dict[str, str]) -> int:
    for name in _MEMORIES:
        number, _, unit = fields.get(name, "").partition(" ")
        if number.isdigit():
            scale = {"": 1, "KiB": KIB, "MiB": KIB * KIB}.get(unit.strip(), 1)
            return int(number) * scale
    return 0


def _busy_ns(fields: dict[str, str]) -> int:
    numbers = [fields.get(name, "").partition(" ")[0] for name in _ENGINES]
    return sum(int(number) for number in numbers if number.isdigit())
