"""What cards one Vulkan driver has, as a line of JSON: a program of its own, which ends at once.

Owns: the look at each card (name, kind, identity, memory, what the backend serves on it). Must not:
be imported by an agent: a driver runs in here, and may crash or hang.

    PYTHON -I -m app.engine.backends.vulkan.listing

The driver is the one that `VK_DRIVER_FILES` names. Exit status 0 with a list on the standard
output, which is empty where the driver has no card; 1 with `{"reason": ...}` where it fails.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any, Final

from gpugoblin.errors import EngineError

__all__ = ["main"]

KINDS: Final = {1: "integrated", 2: "discrete", 3: "virtual", 4: "software"}
"""`VkPhysicalDeviceType`; anything else is `other`."""
ALONE_S: Final = 60
"""The kernel ends this program then, also in a driver that hangs: who asked may be gone."""
PCI: Final = "VK_EXT_pci_bus_info"
NONE: Final = ("no Vulkan driver answers (-9)", "the cards: VK_ERROR_INITIALIZATION_FAILED")
"""How drivers without a card of their own answer."""


def _address(card: Any, extensions: frozenset[str]) -> str:
    """`0000:01:00.0`; empty for a card that is no PCI device."""
    from app.engine.backends.vulkan.loader import Structures, library

    if PCI not in extensions:
        return ""
    make = Structures()
    bus = make.make("PhysicalDevicePCIBusInfoPropertiesEXT")
    properties = make.make("PhysicalDeviceProperties2", pNext=bus)
    library.vkGetPhysicalDeviceProperties2(card.handle, properties)
    place = f"{bus.pciDomain:04x}:{bus.pciBus:02x}:{bus.pciDevice:02x}.{bus.pciFunction:x}"
    return "" if place == "0000:00:00.0" else place


def _memory_bytes(card: Any) -> int:
    """The largest heap of the card's own."""
    from app.engine.backends.vulkan.loader import constant, ffi, library

    memory = ffi.new("VkPhysicalDeviceMemoryProperties *")
    library.vkGetPhysicalDeviceMemoryProperties(card.handle, memory)
    local = constant("VK_MEMORY_HEAP_DEVICE_LOCAL_BIT")
    heaps = [memory.memoryHeaps[place] for place in range(memory.memoryHeapCount)]
    return max((int(heap.size) for heap in heaps if heap.flags & local), default=0)


def _served(device: Any) -> dict[str, Any]:
    from app.engine.backends.card.served import NARROW_DTYPES, WIDE_DTYPES
    from app.engine.backends.card.table import EMITTERS
    from app.engine.backends.vulkan.backend import SERVED_BESIDE
    from gpugoblin.graph.classes import CLASSES

    return {
        "operators": sorted(frozenset(EMITTERS) | SERVED_BESIDE),
        "dtypes": sorted((WIDE_DTYPES if device.halves else NARROW_DTYPES).values),
        "classes": sorted(CLASSES),
        "group_threads": device.limits.group_threads,
        "shared_bytes": device.limits.shared_bytes,
        "allocation_bytes": device.limits.allocation_bytes,
    }


def _described(card: Any) -> dict[str, Any]:
    """One card; `unsuited` says why it cannot be computed on, in words, else it is empty."""
    from app.engine.backends.vulkan.device import Device, extensions
    from app.engine.backends.vulkan.loader import Structures, library

    make = Structures()
    properties = make.make("PhysicalDeviceProperties2")
    library.vkGetPhysicalDeviceProperties2(card.handle, properties)
    plain = properties.properties
    told: dict[str, Any] = {
        "name": card.name[:128],
        "kind": KINDS.get(int(plain.deviceType), "other"),
        "uuid": card.uuid,
        "address": _address(card, extensions(card)),
        "vendor": int(plain.vendorID),
        "driver": card.driver[:128],
        "memory_bytes": _memory_bytes(card),
        "unsuited": "",
    }
    try:
        device = Device(card)
    except EngineError as error:
        return {**told, "unsuited": error.what[:300]}
    try:
        return {**told, **_served(device)}
    finally:
        device.close()


def main() -> int:
    """Prints what there is."""
    try:
        from app.engine.backends.vulkan.instance import Instance

        instance = Instance()
        try:
            told = [_described(card) for card in instance.cards()]
        finally:
            instance.close()
    except EngineError as error:
        words = " ".join(error.what.split())
        if not any(answer in words for answer in NONE):
            print(json.dumps({"reason": words[:300]}))
            return 1
        told = []
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    signal.alarm(ALONE_S)
    sys.exit(main())
