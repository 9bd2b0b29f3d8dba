"""The queries against a driver that answers as one with units does."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from app.engine.backends.card.fragments import NO_UNITS, Fragment
from app.engine.backends.vulkan import matrices
from app.engine.backends.vulkan.instance import Card
from app.engine.backends.vulkan.loader import Structures, ffi
from app.engine.backends.vulkan.matrices import BFLOAT16, KHR, NO_MATRICES, Raw, asked_of
from tests.helpers.cards import OpenCard

CARD = Card(ffi.NULL, "card", "00" * 16, "driver", 0, False, ffi.NULL)
ALL = frozenset({KHR, BFLOAT16})
LISTED = (
    (16, 16, 16, 0, 0, 1, 1, 3),
    (16, 8, 8, 0, 0, 1, 1, 3),
    (16, 16, 16, 0, 0, 0, 0, 3),  # sums of float16
    (16, 16, 16, 1000141000, 1000141000, 1, 1, 3),
    (32, 32, 16, 0, 0, 1, 1, 2),  # held by a group
    (16, 16, 32, 3, 3, 5, 5, 3),  # int8
)


class Driver:
    """What `matrices.py` asks of the library."""

    def __init__(self, features: tuple[int, int, int], bfloat16: int, sizes: tuple[int, int]):
        self.features, self.bfloat16, self.sizes = features, bfloat16, sizes
        self._function = ffi.callback(
            "VkResult(VkPhysicalDevice, uint32_t *, VkCooperativeMatrixPropertiesKHR *)", self.list
        )

    def vkGetPhysicalDeviceFeatures2(self, card: Any, plain: Any) -> None:
        twelfth = ffi.cast("VkPhysicalDeviceVulkan12Features *", plain.pNext)
        found = ffi.cast("VkPhysicalDeviceCooperativeMatrixFeaturesKHR *", twelfth.pNext)
        twelfth.shaderFloat16, twelfth.vulkanMemoryModel, found.cooperativeMatrix = self.features
        short = ffi.buffer(ffi.cast("uint8_t *", found.pNext), 28)
        struct.pack_into("<III", short, 16, self.bfloat16, 0, self.bfloat16)

    def vkGetPhysicalDeviceProperties2(self, card: Any, plain: Any) -> None:
        subgroup = ffi.cast("VkPhysicalDeviceSubgroupProperties *", plain.pNext)
        sizes = ffi.cast("VkPhysicalDeviceSubgroupSizeControlProperties *", subgroup.pNext)
        subgroup.subgroupSize = self.sizes[1]
        sizes.minSubgroupSize, sizes.maxSubgroupSize = self.sizes

    def vkGetInstanceProcAddr(self, instance: Any, name: bytes) -> Any:
        return self._function

    def list(self, card: Any, count: Any, listed: Any) -> int:
        if listed == ffi.NULL:
            count[0] = len(LISTED)
            return 0
        for place, line in enumerate(LISTED):
            one = listed[place]
            assert one.sType != 0
            one.MSize, one.NSize, one.KSize = line[:3]
            kinds = [ffi.cast("VkComponentTypeKHR", kind) for kind in line[3:7]]
            one.AType, one.BType, one.CType, one.ResultType = kinds
            one.scope = line[7]
        return 0


def asked(
    monkeypatch: pytest.MonkeyPatch,
    features: tuple[int, int, int] = (1, 1, 1),
    bfloat16: int = 1,
    sizes: tuple[int, int] = (32, 32),
    extensions: frozenset[str] = ALL,
) -> matrices.Asked:
    monkeypatch.setattr(matrices, "library", Driver(features, bfloat16, sizes))
    return asked_of(CARD, extensions)


def test_what_a_driver_with_units_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch)
    assert found.extensions == (KHR, BFLOAT16)
    assert found.units.subgroup == 32
    assert found.units.fragments == {
        "float16": (Fragment(16, 16, 16), Fragment(16, 8, 8)),
        "bfloat16": (Fragment(16, 16, 16),),
    }
    assert found.features.cooperativeMatrix == 1
    following = ffi.buffer(ffi.cast("uint8_t *", found.features.pNext), 28)
    assert struct.unpack_from("<I", following) == (1000141000,)
    assert struct.unpack_from("<III", following, 16) == (1, 0, 1)


def test_without_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (
        asked(monkeypatch, bfloat16=0),
        asked(monkeypatch, extensions=frozenset({KHR})),
    ):
        assert found.extensions == (KHR,)
        assert list(found.units.fragments) == ["float16"]
        assert found.features.pNext == ffi.NULL


@pytest.mark.parametrize("missing", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_feature_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[int, int, int]
) -> None:
    assert asked(monkeypatch, features=missing) is NO_MATRICES


def test_subgroups_of_several_widths_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, sizes=(8, 32)) is NO_MATRICES


def test_a_driver_without_the_extension(card: OpenCard) -> None:
    assert asked_of(CARD, frozenset()).units is NO_UNITS
    if KHR not in card.device.extensions:
        assert card.device.units is NO_UNITS


def test_raw_structure() -> None:
    raw = Raw(7, 3, (1, 2, 3))
    assert struct.unpack_from("<I", ffi.buffer(raw.handle)) == (7,)
    assert raw.values == (1, 2, 3)
    Structures().make("PhysicalDeviceFeatures2", pNext=raw.handle)
