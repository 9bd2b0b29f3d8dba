"""One opened card for all tests here, under the validation layer."""

from __future__ import annotations

import pytest

from gpugoblin.errors import EngineError

# Test modules here import the backend, which needs the loader.
pytest.importorskip(
    "app.engine.backends.vulkan.loader", reason="no Vulkan loader is here", exc_type=EngineError
)

from tests.helpers.opened import card, machine, opened, opened_machine

__all__ = ["card", "machine", "opened", "opened_machine"]
