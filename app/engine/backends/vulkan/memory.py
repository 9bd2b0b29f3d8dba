"""Memory of a card: blocks of one buffer each, addressed by number.

Owns: allocation and the host's view of it. Must not: decide what lies where.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from app.engine.backends.vulkan.device import Device
from app.engine.backends.vulkan.loader import Structures, constant, ffi, library, require
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import EngineError

__all__ = ["Block", "Space"]

_USAGE: Final = (
    "VK_BUFFER_USAGE_STORAGE_BUFFER_BIT",
    "VK_BUFFER_USAGE_TRANSFER_SRC_BIT",
    "VK_BUFFER_USAGE_TRANSFER_DST_BIT",
    "VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT",
)


class Block:
    """One buffer over one allocation, until `close`.

    Args:
        visible: in memory that the host can read and write (`bytes`), else in the card's own.

    Raises:
        EngineError: `card_memory`, `card_failed`.
    """

    def __init__(self, device: Device, size_bytes: int, *, visible: bool = False) -> None:
        self._device = device
        self.size_bytes = max(256, size_bytes)
        self.handle: Any = None
        self._memory: Any = None
        if self.size_bytes > device.limits.allocation_bytes:
            raise EngineError("card_memory", doing=f"allocating {self.size_bytes} bytes")
        make = Structures()
        usage = 0
        for name in _USAGE:
            usage |= constant(name)
        info = make.make("BufferCreateInfo", size=self.size_bytes, usage=usage)
        found = ffi.new("VkBuffer *")
        require(library.vkCreateBuffer(device.handle, info, ffi.NULL, found), "making a buffer")
        self.handle = found[0]
        try:
            self._allocate(make, visible)
        except BaseException:
            self.close()
            raise
        address = make.make("BufferDeviceAddressInfo", buffer=self.handle)
        self.address = int(library.vkGetBufferDeviceAddress(device.handle, address))
        self._mapped = self._map() if visible else None

    def _allocate(self, make: Structures, visible: bool) -> None:
        device = self._device
        needs = make.make("MemoryRequirements")
        library.vkGetBufferMemoryRequirements(device.handle, self.handle, needs)
        flags = make.make(
            "MemoryAllocateFlagsInfo",
            flags=constant("VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT"),
        )
        kind = _memory_type(device, int(needs.memoryTypeBits), visible)
        info = make.make(
            "MemoryAllocateInfo", pNext=flags, allocationSize=needs.size, memoryTypeIndex=kind
        )
        found = ffi.new("VkDeviceMemory *")
        doing = f"allocating {int(needs.size)} bytes"
        require(library.vkAllocateMemory(device.handle, info, ffi.NULL, found), doing)
        self._memory = found[0]
        require(
            library.vkBindBufferMemory(device.handle, self.handle, self._memory, 0),
            "binding a buffer",
        )

    def _map(self) -> Array:
        pointer = ffi.new("void **")
        whole = 2**64 - 1
        require(
            library.vkMapMemory(self._device.handle, self._memory, 0, whole, 0, pointer),
            "mapping a buffer",
        )
        return np.frombuffer(ffi.buffer(pointer[0], self.size_bytes), np.uint8)

    @property
    def bytes(self) -> Array:
        """The host's view; it must not be used after `close`."""
        if self._mapped is None:
            raise RuntimeError("the block is not visible, or closed")
        return self._mapped

    def close(self) -> None:
        """Frees both; nothing on the card may use them any more."""
        self._mapped = None
        if self.handle is not None:
            library.vkDestroyBuffer(self._device.handle, self.handle, ffi.NULL)
            self.handle = None
        if self._memory is not None:
            library.vkFreeMemory(self._device.handle, self._memory, ffi.NULL)
            self._memory = None


class Space:
    """Memory of one range of places over as many allocations as it takes, until `close`.

    Args:
        page_bytes: of each but the last. Nothing that is addressed may lie across two of them.

    Raises:
        EngineError: `card_memory`, `card_failed`.
    """

    def __init__(self, device: Device, size_bytes: int, page_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.page_bytes = page_bytes
        self.pages: list[Block] = []
        try:
            for start in range(0, max(1, size_bytes), page_bytes):
                self.pages.append(Block(device, min(page_bytes, size_bytes - start)))
        except BaseException:
            self.close()
            raise

    def find(self, place: int) -> tuple[Block, int]:
        """The allocation of a place, and the first byte in it."""
        return self.pages[place // self.page_bytes], place % self.page_bytes

    def address(self, place: int) -> int:
        """What a kernel reaches it by. An empty tensor may lie behind the end."""
        page = min(place // self.page_bytes, len(self.pages) - 1)
        return self.pages[page].address + place - page * self.page_bytes

    def close(self) -> None:
        """Frees all; nothing on the card may use them any more."""
        for page in self.pages:
            page.close()
        self.pages.clear()


def _memory_type(device: Device, allowed: int, visible: bool) -> int:
    memory = ffi.new("VkPhysicalDeviceMemoryProperties *")
    library.vkGetPhysicalDeviceMemoryProperties(device.card.handle, memory)
    local = constant("VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT")
    seen = constant("VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT")
    coherent = constant("VK_MEMORY_PROPERTY_HOST_COHERENT_BIT")
    cached = constant("VK_MEMORY_PROPERTY_HOST_CACHED_BIT")
    wanted = seen | coherent if visible else local
    liked = cached if visible else 0
    disliked = local if visible else seen
    found = []
    for place in range(memory.memoryTypeCount):
        flags = memory.memoryTypes[place].propertyFlags
        if allowed & (1 << place) and flags & wanted == wanted:
            found.append((bool(liked and not flags & liked), bool(flags & disliked), place))
    if not found:
        raise EngineError("card_unsuited", card=device.card.name, missing="a kind of memory")
    return min(found)[2]
