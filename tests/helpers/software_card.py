"""The cards of this machine, found as an agent finds them; the one reason to skip."""

from __future__ import annotations

from functools import cache

import pytest

from app.host.cards import Discovery, find_cards

__all__ = ["only_hardware", "only_software"]


@cache
def _found() -> Discovery:
    return find_cards()


def only_software() -> Discovery:
    """Skips the test where no driver computes on the processor."""
    cards = tuple(card for card in _found().cards if card.kind == "software" and not card.unsuited)
    if not cards:
        pytest.skip("no Vulkan driver here computes on the processor")
    return Discovery(cards[:1], ())


def only_hardware() -> Discovery:
    """Skips the test where there is no graphics card."""
    cards = tuple(card for card in _found().cards if card.kind != "software" and not card.unsuited)
    if not cards:
        pytest.skip("no graphics card with a Vulkan driver here")
    return Discovery(cards[:1], ())
