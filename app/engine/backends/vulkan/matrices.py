"""What a card's matrix units offer through Vulkan, and what must be asked for to use them.

Owns: those queries (VK_KHR_cooperative_matrix, VK_KHR_shader_bfloat16). Must not: choose a
kernel. A structure that the `vulkan` package lacks is laid out here as `vulkan_core.h` has it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from app.engine.backends.card.fragments import NO_UNITS, Fragment, Units
from app.engine.backends.vulkan.instance import Card
from app.engine.backends.vulkan.loader import Structures, constant, ffi, library, require

__all__ = ["NO_MATRICES", "Asked", "Raw", "asked_of"]

KHR: Final = "VK_KHR_cooperative_matrix"
BFLOAT16: Final = "VK_KHR_shader_bfloat16"
_BFLOAT16_FEATURES: Final = 1000141000
_KINDS: Final = {0: "float16", 1: "float32", 1000141000: "bfloat16"}
"""Of VkComponentTypeKHR, those that are used."""
_SUBGROUP: Final = 3
MOST_LISTED: Final = 1024


class Raw:
    """A structure by its number: sType, pNext, then numbers of 32 bits."""

    def __init__(self, kind: int, count: int, values: tuple[int, ...] = ()) -> None:
        self.handle = ffi.new("uint64_t[]", 2 + -(-count // 2))
        self.count = count
        struct.pack_into("<I", ffi.buffer(self.handle), 0, kind)
        struct.pack_into(f"<{len(values)}I", ffi.buffer(self.handle), 16, *values)

    @property
    def values(self) -> tuple[int, ...]:
        return struct.unpack_from(f"<{self.count}I", ffi.buffer(self.handle), 16)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the driver when the card is opened, so that `units` can be used.

    Args:
        features: a chain for VkDeviceCreateInfo; `kept` owns its memory.
    """

    units: Units = NO_UNITS
    extensions: tuple[str, ...] = ()
    features: Any = ffi.NULL
    kept: tuple[object, ...] = ()


NO_MATRICES: Final = Asked()


def asked_of(card: Card, extensions: frozenset[str]) -> Asked:
    """Nothing, where the driver lacks something or leaves the width of subgroups open."""
    if KHR not in extensions or card.instance is None:
        return NO_MATRICES
    make = Structures()
    short = Raw(_BFLOAT16_FEATURES, 3)
    matrices = make.make("PhysicalDeviceCooperativeMatrixFeaturesKHR", pNext=short.handle)
    twelfth = make.make("PhysicalDeviceVulkan12Features", pNext=matrices)
    library.vkGetPhysicalDeviceFeatures2(
        card.handle, make.make("PhysicalDeviceFeatures2", pNext=twelfth)
    )
    subgroup = _subgroup(card, make)
    has = matrices.cooperativeMatrix and twelfth.shaderFloat16 and twelfth.vulkanMemoryModel
    if not has or not subgroup:
        return NO_MATRICES
    bfloat16 = BFLOAT16 in extensions and short.values[0] and short.values[2]
    forms = {"float16", "bfloat16"} if bfloat16 else {"float16"}
    wanted = Raw(_BFLOAT16_FEATURES, 3, (1, 0, 1))
    asked = make.make(
        "PhysicalDeviceCooperativeMatrixFeaturesKHR",
        pNext=wanted.handle if bfloat16 else ffi.NULL,
        cooperativeMatrix=1,
    )
    return Asked(
        Units(subgroup, _fragments(card, forms)),
        (KHR, BFLOAT16) if bfloat16 else (KHR,),
        asked,
        (make, wanted),
    )


def _subgroup(card: Card, make: Structures) -> int:
    """Threads of a subgroup; 0 where the driver may choose among several numbers."""
    sizes = make.make("PhysicalDeviceSubgroupSizeControlProperties")
    plain = make.make("PhysicalDeviceSubgroupProperties", pNext=sizes)
    library.vkGetPhysicalDeviceProperties2(
        card.handle, make.make("PhysicalDeviceProperties2", pNext=plain)
    )
    if not sizes.minSubgroupSize == sizes.maxSubgroupSize == plain.subgroupSize:
        return 0
    return int(plain.subgroupSize)


def _fragments(card: Card, forms: set[str]) -> dict[str, tuple[Fragment, ...]]:
    """By the form of the operands, with sums of float32, held by a subgroup."""
    name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
    address = library.vkGetInstanceProcAddr(card.instance, name.encode())
    function = ffi.cast(f"PFN_{name}", address)
    count = ffi.new("uint32_t *")
    doing = "listing the sizes of matrices"
    require(function(card.handle, count, ffi.NULL), doing)
    count[0] = min(count[0], MOST_LISTED)
    listed = ffi.new("VkCooperativeMatrixPropertiesKHR[]", count[0])
    for place in range(count[0]):
        listed[place].sType = constant("VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR")
    require(function(card.handle, count, listed), doing)
    found: dict[str, list[Fragment]] = {form: [] for form in forms}
    for place in range(count[0]):
        one = listed[place]
        kinds = [
            _KINDS.get(int(kind), "") for kind in (one.AType, one.BType, one.CType, one.ResultType)
        ]
        alike = kinds[0] == kinds[1] and kinds[2:] == ["float32", "float32"]
        if alike and kinds[0] in forms and one.scope == _SUBGROUP:
            found[kinds[0]].append(Fragment(one.MSize, one.NSize, one.KSize))
    return {form: tuple(sizes) for form, sizes in found.items()}
