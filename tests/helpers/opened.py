"""Fixtures: one opened card for the tests of kernels and of the Vulkan backend, under the
validation layer. The `conftest.py` of each directory names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.helpers.cards import OpenCard, open_card

__all__ = ["card", "machine", "opened", "opened_machine"]

if TYPE_CHECKING:
    from app.engine.backends.vulkan.machine import Machine


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


@pytest.fixture(scope="session", autouse=True)
def opened_machine(opened: OpenCard) -> Iterator[Machine]:
    from app.engine.backends.vulkan.machine import Machine

    found = Machine(opened.device.card.uuid, validated=True)
    yield found
    found.close()


@pytest.fixture
def machine(opened_machine: Machine) -> Iterator[Machine]:
    """A machine under the validation layer."""
    yield opened_machine
    opened_machine.require_no_complaint()
