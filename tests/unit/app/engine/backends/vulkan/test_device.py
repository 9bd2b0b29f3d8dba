from __future__ import annotations

import pytest

from app.engine.backends.vulkan.device import choose
from gpugoblin.errors import EngineError
from tests.helpers.cards import OpenCard


def test_choice_by_uuid(card: OpenCard) -> None:
    uuid = card.device.card.uuid
    dashed = f"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"
    assert choose(card.instance, uuid).uuid == uuid
    assert choose(card.instance, dashed.upper()).uuid == uuid


def test_card_that_is_not_there(card: OpenCard) -> None:
    with pytest.raises(EngineError) as raised:
        choose(card.instance, "00" * 16)
    assert raised.value.code == "card_missing"


def test_limits_are_what_kernels_count_on(card: OpenCard) -> None:
    limits = card.device.limits
    assert limits.shared_bytes >= 16 * 1024
    assert limits.group_threads >= 128
    assert limits.groups >= 65535
    assert limits.push_bytes >= 128
    assert limits.timestamp_ns > 0
    assert limits.allocation_bytes >= 1 << 30


def test_budget_is_read(card: OpenCard) -> None:
    assert 0 < card.device.budget_bytes() < 1 << 50


def test_functions_of_the_driver(card: OpenCard) -> None:
    assert card.device.function("vkCmdDispatch")
    card.device.wait_idle()
