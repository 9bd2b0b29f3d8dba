"""One Vulkan instance: what cards there are, and what the validation layer says.

Owns: the instance and its debug messenger. Must not: open a card.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from app.engine.backends.vulkan.loader import Structures, constant, ffi, library, require, text
from gpugoblin.errors import EngineError

__all__ = ["Card", "Instance"]

VERSION: Final = (1 << 22) | (2 << 12)
"""Vulkan 1.2, the least that a card must have."""

LAYER: Final = "VK_LAYER_KHRONOS_validation"
MAX_CARDS: Final = 64
MAX_MESSAGES: Final = 100


@dataclass(frozen=True, slots=True)
class Card:
    """A physical device.

    Args:
        uuid: 32 hexadecimal digits, the same in every process of one boot and driver.
        software: computed by the processor.
        instance: that it was listed by.
    """

    handle: Any
    name: str
    uuid: str
    driver: str
    version: int
    software: bool
    instance: Any = None


class Instance:
    """Owns the loader's instance until `close`.

    Args:
        validated: with the validation layer, whose errors are collected in `complaints`.

    Raises:
        EngineError: `card_missing`.
    """

    def __init__(self, *, validated: bool = False) -> None:
        self.complaints: list[str] = []
        self._messenger: Any = None
        make = Structures()
        if validated and not _has_layer(make):
            raise EngineError(
                "card_missing", backend="vulkan", reason="the validation layer is not installed"
            )
        application = make.make("ApplicationInfo", apiVersion=VERSION)
        info = make.make("InstanceCreateInfo", pApplicationInfo=application)
        if validated:
            info.enabledLayerCount = 1
            info.ppEnabledLayerNames = make.texts([LAYER])
            info.enabledExtensionCount = 1
            info.ppEnabledExtensionNames = make.texts(["VK_EXT_debug_utils"])
        found = ffi.new("VkInstance *")
        result = library.vkCreateInstance(info, ffi.NULL, found)
        if result:
            raise EngineError(
                "card_missing", backend="vulkan", reason=f"no Vulkan driver answers ({result})"
            )
        self.handle = found[0]
        if validated:
            self._listen()

    def _listen(self) -> None:
        @ffi.callback(
            "VkBool32(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,"
            " VkDebugUtilsMessengerCallbackDataEXT *, void *)"
        )  # type: ignore[untyped-decorator]
        def heard(severity: int, kind: int, data: Any, user: Any) -> int:
            if len(self.complaints) < MAX_MESSAGES:
                self.complaints.append(text(data.pMessage))
            return 0

        self._heard = heard
        make = Structures()
        info = make.make(
            "DebugUtilsMessengerCreateInfoEXT",
            messageSeverity=constant("VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT"),
            messageType=constant("VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT"),
            pfnUserCallback=heard,
        )
        create = self.function("vkCreateDebugUtilsMessengerEXT")
        found = ffi.new("VkDebugUtilsMessengerEXT *")
        require(create(self.handle, info, ffi.NULL, found), "listening to the validation layer")
        self._messenger = found[0]

    def function(self, name: str) -> Any:
        """An extension's function."""
        address = library.vkGetInstanceProcAddr(self.handle, name.encode())
        return ffi.cast(f"PFN_{name}", address)

    def cards(self) -> list[Card]:
        """Every card of Vulkan 1.2 or later, in the loader's order."""
        count = ffi.new("uint32_t *", MAX_CARDS)
        handles = ffi.new("VkPhysicalDevice[]", MAX_CARDS)
        require(
            library.vkEnumeratePhysicalDevices(self.handle, count, handles), "listing the cards"
        )
        found = [_card(handles[place], self.handle) for place in range(count[0])]
        return [card for card in found if card.version >= VERSION]

    def close(self) -> None:
        if self.handle is None:
            return
        if self._messenger is not None:
            self.function("vkDestroyDebugUtilsMessengerEXT")(self.handle, self._messenger, ffi.NULL)
        library.vkDestroyInstance(self.handle, ffi.NULL)
        self.handle = None


def _has_layer(make: Structures) -> bool:
    count = make.array("uint32_t", 1)
    require(library.vkEnumerateInstanceLayerProperties(count, ffi.NULL), "listing the layers")
    layers = make.array("VkLayerProperties", count[0])
    require(library.vkEnumerateInstanceLayerProperties(count, layers), "listing the layers")
    return any(text(layers[place].layerName) == LAYER for place in range(count[0]))


def _card(handle: Any, instance: Any) -> Card:
    make = Structures()
    driver = make.make("PhysicalDeviceDriverProperties")
    identity = make.make("PhysicalDeviceIDProperties", pNext=driver)
    properties = make.make("PhysicalDeviceProperties2", pNext=identity)
    plain = properties.properties
    library.vkGetPhysicalDeviceProperties(handle, ffi.addressof(plain))
    if plain.apiVersion >= VERSION:
        library.vkGetPhysicalDeviceProperties2(handle, properties)
    return Card(
        handle,
        text(plain.deviceName),
        bytes(ffi.buffer(identity.deviceUUID)).hex(),
        f"{text(driver.driverName)}-{text(driver.driverInfo)}".replace(" ", "_"),
        int(plain.apiVersion),
        plain.deviceType == constant("VK_PHYSICAL_DEVICE_TYPE_CPU"),
        instance,
    )
