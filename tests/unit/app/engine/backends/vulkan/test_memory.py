from __future__ import annotations

import pytest

from app.engine.backends.vulkan.memory import Block, Space
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


def test_a_space_is_several_allocations(card: OpenCard) -> None:
    space = Space(card.device, 10_000, 4096)
    assert [page.size_bytes for page in space.pages] == [4096, 4096, 1808]
    for place, page in ((0, 0), (4095, 0), (4096, 1), (9999, 2)):
        block, inside = space.find(place)
        assert (block, inside) == (space.pages[page], place - 4096 * page)
        assert space.address(place) == block.address + inside
    assert space.address(12_288) == space.pages[2].address + 4096  # empty, behind the end
    space.close()
    space.close()


def test_a_space_that_the_card_does_not_give_leaves_nothing(card: OpenCard) -> None:
    much = card.device.limits.allocation_bytes + 1
    with pytest.raises(EngineError) as raised:
        Space(card.device, 4096 + much, much)
    assert raised.value.code == "card_memory"
