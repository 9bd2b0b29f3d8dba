from __future__ import annotations

import pytest

from app.engine.backends.vulkan.loader import Structures, constant, ffi, require, text
from gpugoblin.errors import EngineError


def test_structures_know_their_type() -> None:
    make = Structures()
    features = make.make("PhysicalDeviceVulkan12Features", shaderInt8=1)
    assert features.sType == 51
    assert features.shaderInt8 == 1
    assert make.make("MemoryRequirements").size == 0  # one without a type


def test_texts_stay_alive() -> None:
    make = Structures()
    names = make.texts(["one", "two"])
    assert [text(names[place]) for place in range(2)] == ["one", "two"]
    assert text(ffi.new("char[]", b"\xff")) == "\ufffd"


def test_constants_that_the_package_leaves_out() -> None:
    assert constant("VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT") == 0x20000
    assert constant("VK_SUCCESS") == 0


@pytest.mark.parametrize(
    ("result", "code"),
    [(-2, "card_memory"), (-1, "card_memory"), (-4, "card_lost"), (-3, "card_failed")],
)
def test_results_become_codes(result: int, code: str) -> None:
    with pytest.raises(EngineError) as raised:
        require(result, "testing")
    assert raised.value.code == code
    assert "testing" in str(raised.value)


def test_unknown_result_has_its_number() -> None:
    with pytest.raises(EngineError, match="-123456"):
        require(-123456, "testing")
    require(0, "testing")
