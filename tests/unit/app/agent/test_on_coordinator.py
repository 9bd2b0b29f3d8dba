"""The handlers of `on_coordinator` are the machine's; what they do is tested in test_machine."""

from __future__ import annotations

import re

import pytest

from app.agent import events, on_coordinator
from app.agent.machine import _HANDLERS

EVENTS = ["Enrolled", "Recalled", "ContactReply", "ContactFailed", "LabRefused"]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_has_the_handler_of_its_name(event: str) -> None:
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
    handler = getattr(on_coordinator, snake)
    assert _HANDLERS[getattr(events, event)] is handler


def test_no_handler_is_without_its_event() -> None:
    assert len(on_coordinator.__all__) == len(EVENTS)
