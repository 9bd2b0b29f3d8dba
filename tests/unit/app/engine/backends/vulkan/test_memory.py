from __future__ import annotations

import pytest

from app.engine.backends.vulkan.memory import Block
from gpugoblin.errors import EngineError
from tests.helpers.cards import OpenCard


def test_visible_block_is_the_hosts_memory(card: OpenCard) -> None:
    block = Block(card.device, 1000, visible=True)
    block.bytes[:] = 7
    assert block.bytes.size == 1000
    assert int(block.bytes.sum()) == 7000
    assert block.address % 16 == 0
    block.close()
    with pytest.raises(RuntimeError):
        _ = block.bytes
    block.close()


def test_blocks_have_addresses_of_their_own(card: OpenCard) -> None:
    first, second = Block(card.device, 4096), Block(card.device, 4096)
    low, high = sorted((first.address, second.address))
    assert high - low >= 4096
    first.close()
    second.close()


def test_block_larger_than_the_card_allows(card: OpenCard) -> None:
    with pytest.raises(EngineError) as raised:
        Block(card.device, card.device.limits.allocation_bytes + 1)
    assert raised.value.code == "card_memory"
