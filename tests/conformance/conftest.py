"""The engines of the operator suite: one process for all its tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.backends import CPU


@pytest.fixture(scope="session", autouse=True)
def cpu_engine() -> Iterator[None]:
    """Starts before the leak fixture of any test looks, and ends after the last one."""
    CPU.start()
    yield
    CPU.close()
