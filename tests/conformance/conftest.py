"""The engines of the operator suite: one process a backend for all its tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.backends import CHILDREN


@pytest.fixture(scope="session", autouse=True)
def engines() -> Iterator[None]:
    """Starts before the leak fixture of any test looks, and ends after the last one."""
    for child in CHILDREN:
        child.start()
    yield
    for child in CHILDREN:
        child.close()
