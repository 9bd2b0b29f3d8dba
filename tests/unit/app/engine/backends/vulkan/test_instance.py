from __future__ import annotations

from app.engine.backends.vulkan.instance import VERSION, Instance
from tests.helpers.cards import OpenCard


def test_cards_have_an_identity(card: OpenCard) -> None:
    found = card.instance.cards()
    assert found
    for one in found:
        assert len(bytes.fromhex(one.uuid)) == 16
        assert one.version >= VERSION
        assert one.name
        assert " " not in one.driver


def test_identity_is_the_same_in_another_instance(card: OpenCard) -> None:
    other = Instance()
    try:
        assert [one.uuid for one in other.cards()] == [one.uuid for one in card.instance.cards()]
        assert other.complaints == []
    finally:
        other.close()
        other.close()
