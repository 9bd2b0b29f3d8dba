"""Which session is in use."""

from __future__ import annotations

from typing import Any

import pytest

from gpugoblin.capture.runner import Current, Runner
from gpugoblin.errors import ClientError


class Nobody:
    """A runner that never runs."""

    def save(self, *arguments: Any) -> Any:
        raise AssertionError

    def compute(self, *arguments: Any) -> Any:
        raise AssertionError


def test_the_last_that_came_and_has_not_left() -> None:
    current, first, second = Current(), Nobody(), Nobody()
    with pytest.raises(ClientError, match="not_connected"):
        current.get()
    runners: list[Runner] = [first, second]
    for runner in runners:
        current.enter(runner)
    assert current.get() is second
    current.leave(first)
    assert current.get() is second
    current.leave(second)
    current.leave(second)
    with pytest.raises(ClientError, match="not_connected"):
        current.get()
