"""One opened card: its features, its queue, its limits.

Owns: the logical device. Must not: allocate memory or know a kernel.

What a card must have: 64-bit addresses of buffers and 64-bit integers, 8-bit storage (a bool of a
tensor is a byte), and timeline semaphores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from app.engine.backends.vulkan.instance import Card, Instance
from app.engine.backends.vulkan.loader import Structures, constant, ffi, library, require, text
from app.engine.backends.vulkan.matrices import Asked, asked_of
from gpugoblin.errors import EngineError

__all__ = ["Device", "Limits", "choose", "extensions"]

_NEEDED: Final = (
    "bufferDeviceAddress",
    "scalarBlockLayout",
    "shaderInt8",
    "storageBuffer8BitAccess",
    "timelineSemaphore",
)
MAX_FAMILIES: Final = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """What a kernel may ask for."""

    shared_bytes: int
    group_threads: int
    groups: int
    push_bytes: int
    timestamp_ns: float
    allocation_bytes: int


def choose(instance: Instance, uuid: str = "") -> Card:
    """The card with this UUID; without one the first that is no software, else the first.

    Raises:
        EngineError: `card_missing`.
    """
    cards = instance.cards()
    wanted = uuid.replace("-", "").lower()
    if wanted:
        cards = [card for card in cards if card.uuid == wanted]
    if not cards:
        reason = f"no card has the UUID {wanted[:32]}" if wanted else "no card has Vulkan 1.2"
        raise EngineError("card_missing", backend="vulkan", reason=reason)
    return min(cards, key=lambda card: card.software)


class Device:
    """Owns the logical device and its compute queue until `close`.

    Raises:
        EngineError: `card_unsuited`, `card_failed`.
    """

    def __init__(self, card: Card) -> None:
        self.card = card
        self.family = _compute_family(card)
        self.limits = _limits(card)
        self.extensions = extensions(card)
        self.controls = _controls(card)
        self.halves = _halves(card)
        asked = asked_of(card, self.extensions)
        self.units = asked.units
        make = Structures()
        features = _features(card, make, asked)
        priority = make.array("float", [0.0])
        queue = make.make(
            "DeviceQueueCreateInfo",
            queueFamilyIndex=self.family,
            queueCount=1,
            pQueuePriorities=priority,
        )
        info = make.make(
            "DeviceCreateInfo", pNext=features, queueCreateInfoCount=1, pQueueCreateInfos=queue
        )
        info.enabledExtensionCount = len(asked.extensions)
        info.ppEnabledExtensionNames = make.texts(list(asked.extensions))
        found = ffi.new("VkDevice *")
        require(library.vkCreateDevice(card.handle, info, ffi.NULL, found), f"opening {card.name}")
        self.handle = found[0]
        held = ffi.new("VkQueue *")
        library.vkGetDeviceQueue(self.handle, self.family, 0, held)
        self.queue = held[0]

    def function(self, name: str) -> Any:
        """A function of the driver itself, without the loader's detour."""
        address = library.vkGetDeviceProcAddr(self.handle, name.encode())
        return ffi.cast(f"PFN_{name}", address)

    def budget_bytes(self) -> int:
        """What the largest heap of the card itself has free for us now.

        With VK_EXT_memory_budget the driver's word; else 70 % of the heap.
        """
        make = Structures()
        found = make.make("PhysicalDeviceMemoryProperties2")
        budget = None
        if "VK_EXT_memory_budget" in self.extensions:
            budget = make.make("PhysicalDeviceMemoryBudgetPropertiesEXT")
            found.pNext = budget
        library.vkGetPhysicalDeviceMemoryProperties2(self.card.handle, found)
        memory = found.memoryProperties
        local = constant("VK_MEMORY_HEAP_DEVICE_LOCAL_BIT")
        heaps = [
            heap for heap in range(memory.memoryHeapCount) if memory.memoryHeaps[heap].flags & local
        ]
        heap = max(heaps, key=lambda place: int(memory.memoryHeaps[place].size), default=0)
        if budget is not None:
            return max(0, int(budget.heapBudget[heap]) - int(budget.heapUsage[heap]))
        return int(memory.memoryHeaps[heap].size) * 7 // 10

    def wait_idle(self) -> None:
        require(library.vkDeviceWaitIdle(self.handle), "waiting for the card")

    def close(self) -> None:
        if self.handle is not None:
            library.vkDestroyDevice(self.handle, ffi.NULL)
            self.handle = None


def _compute_family(card: Card) -> int:
    count = ffi.new("uint32_t *", MAX_FAMILIES)
    families = ffi.new("VkQueueFamilyProperties[]", MAX_FAMILIES)
    library.vkGetPhysicalDeviceQueueFamilyProperties(card.handle, count, families)
    compute = constant("VK_QUEUE_COMPUTE_BIT")
    able = [place for place in range(count[0]) if families[place].queueFlags & compute]
    if not able:
        raise EngineError("card_unsuited", card=card.name, missing="a compute queue")
    graphics = constant("VK_QUEUE_GRAPHICS_BIT")
    # One without graphics is scheduled beside the desktop where there is one.
    return min(able, key=lambda place: bool(families[place].queueFlags & graphics))


def _limits(card: Card) -> Limits:
    make = Structures()
    third = make.make("PhysicalDeviceMaintenance3Properties")
    properties = make.make("PhysicalDeviceProperties2", pNext=third)
    library.vkGetPhysicalDeviceProperties2(card.handle, properties)
    limits = properties.properties.limits
    return Limits(
        shared_bytes=int(limits.maxComputeSharedMemorySize),
        group_threads=int(limits.maxComputeWorkGroupInvocations),
        groups=int(limits.maxComputeWorkGroupCount[1]),
        push_bytes=int(limits.maxPushConstantsSize),
        timestamp_ns=float(limits.timestampPeriod),
        allocation_bytes=int(third.maxMemoryAllocationSize),
    )


def _controls(card: Card) -> frozenset[str]:
    """What the driver can be asked for in float32 arithmetic (`card.spirv.CONTROLS`)."""
    make = Structures()
    found = make.make("PhysicalDeviceFloatControlsProperties")
    properties = make.make("PhysicalDeviceProperties2", pNext=found)
    library.vkGetPhysicalDeviceProperties2(card.handle, properties)
    names = {
        "denormals": "shaderDenormPreserveFloat32",
        "signs": "shaderSignedZeroInfNanPreserveFloat32",
        "nearest": "shaderRoundingModeRTEFloat32",
    }
    return frozenset(control for control, name in names.items() if getattr(found, name))


def extensions(card: Card) -> frozenset[str]:
    """Names of the device extensions that its driver has."""
    count = ffi.new("uint32_t *")
    require(
        library.vkEnumerateDeviceExtensionProperties(card.handle, ffi.NULL, count, ffi.NULL),
        "listing the extensions",
    )
    found = ffi.new("VkExtensionProperties[]", count[0])
    require(
        library.vkEnumerateDeviceExtensionProperties(card.handle, ffi.NULL, count, found),
        "listing the extensions",
    )
    return frozenset(text(found[place].extensionName) for place in range(count[0]))


def _halves(card: Card) -> bool:
    """Does it store and know 16 bits?"""
    make = Structures()
    had = make.make("PhysicalDeviceVulkan11Features")
    plain = make.make("PhysicalDeviceFeatures2", pNext=had)
    library.vkGetPhysicalDeviceFeatures2(card.handle, plain)
    return bool(had.storageBuffer16BitAccess and plain.features.shaderInt16)


def _features(card: Card, make: Structures, matrices: Asked) -> Any:
    """The features to ask for, all of which the card has.

    Raises:
        EngineError: `card_unsuited`.
    """
    had = make.make("PhysicalDeviceVulkan12Features")
    plain = make.make("PhysicalDeviceFeatures2", pNext=had)
    library.vkGetPhysicalDeviceFeatures2(card.handle, plain)
    missing = [name for name in _NEEDED if not getattr(had, name)]
    if not plain.features.shaderInt64:
        missing.append("shaderInt64")
    if missing:
        raise EngineError("card_unsuited", card=card.name, missing=", ".join(missing))
    halves = int(_halves(card))
    eleventh = make.make(
        "PhysicalDeviceVulkan11Features",
        pNext=matrices.features,
        storageBuffer16BitAccess=halves,
    )
    wanted = make.make(
        "PhysicalDeviceVulkan12Features", pNext=eleventh, **dict.fromkeys(_NEEDED, 1)
    )
    if matrices.extensions:
        wanted.shaderFloat16 = wanted.vulkanMemoryModel = 1
    asked = make.make("PhysicalDeviceFeatures2", pNext=wanted)
    asked.features.shaderInt64 = 1
    asked.features.shaderInt16 = halves
    return asked
