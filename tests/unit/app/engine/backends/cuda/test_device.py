from __future__ import annotations

import pytest

from app.engine.backends.cuda.device import Card, Device, cards, choose
from gpugoblin.errors import EngineError
from tests.helpers.fake_cuda import FakeCuda


def test_card_by_its_uuid() -> None:
    known = cards(FakeCuda(architectures=((7, 5), (9, 0))))
    assert choose(known).architecture == 75
    assert choose(known, "GPU-02020202-0202-0202-0202-020202020202") == known[1]
    with pytest.raises(EngineError) as raised:
        choose(known, "00" * 16)
    assert raised.value.code == "card_missing"


def test_what_is_too_old_is_refused() -> None:
    with pytest.raises(EngineError) as raised:
        choose([Card(0, "Old", "00", 61)])
    assert raised.value.code == "card_unsuited"


@pytest.mark.parametrize(
    ("function", "status", "code"),
    [
        ("cuInit", 100, "card_missing"),
        ("cuDevicePrimaryCtxRetain_v2", 0, ""),
        ("cuDevicePrimaryCtxRetain", 2, "card_memory"),
        ("cuStreamCreateWithPriority", 719, "card_lost"),
    ],
)
def test_errors_of_the_driver_have_codes(function: str, status: int, code: str) -> None:
    fake = FakeCuda(failing={function: status})
    if not code:
        Device(library=fake).close()
        return
    with pytest.raises(EngineError) as raised:
        Device(library=fake)
    assert raised.value.code == code


def test_memory_is_exact() -> None:
    device = Device(library=FakeCuda(free_bytes=1000))
    address = device.allocate(600)
    assert device.free_bytes() == 400
    with pytest.raises(EngineError) as raised:
        device.allocate(600)
    assert raised.value.code == "card_memory"
    device.free(address)
    assert device.free_bytes() == 1000
    assert device.version() == 13000
    device.close()
    device.close()
