"""The Vulkan loader and its definitions: the only importer of the `vulkan` package.

Owns: the C definitions, making structures, and turning a result of the driver into an error. Must
not: keep any state. The package's own wrappers cost several times a call and hide results, so only
its `ffi` and its constants are used.
"""

from __future__ import annotations

from typing import Any, Final

from gpugoblin.errors import EngineError

__all__ = ["Structures", "constant", "ffi", "library", "require", "text"]

try:
    from vulkan import _vulkan as _package
except (ImportError, OSError) as cause:  # the package or the system's loader is not there
    raise EngineError(
        "card_missing", backend="vulkan", reason=f"the Vulkan loader cannot be used ({cause})"
    ) from cause

ffi: Final[Any] = _package.ffi
library: Final[Any] = _package.lib

_RESULTS: Final = {
    name: getattr(_package, name)
    for name in dir(_package)
    if name.startswith(("VK_ERROR_", "VK_TIMEOUT", "VK_NOT_READY", "VK_INCOMPLETE"))
    and isinstance(getattr(_package, name), int)
}
_STRUCTURE_TYPES: Final = {
    name.removeprefix("VK_STRUCTURE_TYPE_").replace("_", ""): getattr(_package, name)
    for name in dir(_package)
    if name.startswith("VK_STRUCTURE_TYPE_")
}
_NAMES: Final = {value: name for name, value in reversed(_RESULTS.items())}

_ABSENT: Final = {
    "VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT": 0x20000,
    "VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT": 2,
}
"""Values that the package leaves out (Vulkan 1.2, the header `vulkan_core.h`)."""


def constant(name: str) -> int:
    """`VK_...` by name."""
    return int(_ABSENT[name] if name in _ABSENT else getattr(_package, name))


def text(array: Any) -> str:
    """A zero-terminated string of the driver; what is not UTF-8 is replaced."""
    return bytes(ffi.string(array)).decode("utf-8", "replace")


def require(result: int, doing: str) -> None:
    """Raises what the driver answered.

    Raises:
        EngineError: `card_memory`, `card_lost`, `card_failed`.
    """
    if result == 0:
        return
    name = _NAMES.get(result, f"VkResult {result}")
    if name in ("VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_OUT_OF_HOST_MEMORY"):
        raise EngineError("card_memory", doing=doing)
    if name == "VK_ERROR_DEVICE_LOST":
        raise EngineError("card_lost", doing=doing)
    raise EngineError("card_failed", doing=doing, result=name)


class Structures:
    """Makes structures and keeps alive what they point to, until it is dropped itself."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def make(self, kind: str, **fields: Any) -> Any:
        """A pointer to a new `VkKind` with the given fields; `sType` follows from its name."""
        pointer = ffi.new(f"Vk{kind} *")
        if "sType" not in fields and any(name == "sType" for name, _ in _fields(kind)):
            fields["sType"] = _STRUCTURE_TYPES[kind.upper()]
        for name, value in fields.items():
            setattr(pointer, name, value)
        self._kept.append(pointer)
        self._kept.extend(fields.values())
        return pointer

    def array(self, kind: str, values: Any) -> Any:
        """A C array; `values` may be a count."""
        found = ffi.new(f"{kind}[]", values)
        self._kept.append(found)
        return found

    def texts(self, names: list[str]) -> Any:
        """A C array of strings."""
        return self.array("char *", [self.text(name) for name in names])

    def text(self, name: str) -> Any:
        return self.array("char", name.encode())


def _fields(kind: str) -> Any:
    return ffi.typeof(f"Vk{kind}").fields
