"""One opened card for all tests here, under the validation layer."""

from __future__ import annotations

from tests.helpers.opened import card, machine, opened, opened_machine

__all__ = ["card", "machine", "opened", "opened_machine"]
