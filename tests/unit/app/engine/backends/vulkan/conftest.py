"""One opened card for all tests of the Vulkan backend, under the validation layer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.cards import OpenCard, open_card


@pytest.fixture(scope="session", autouse=True)
def opened() -> Iterator[OpenCard]:
    """Opened before the leak fixture of any test looks; skips where there is no Vulkan."""
    with open_card() as found:
        yield found


@pytest.fixture
def card(opened: OpenCard) -> Iterator[OpenCard]:
    """The same card; what the validation layer says during a test fails it."""
    opened.instance.complaints.clear()
    yield opened
    assert opened.instance.complaints == []
