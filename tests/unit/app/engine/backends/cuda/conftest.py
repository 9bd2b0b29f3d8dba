"""A machine of CUDA that computes in the host's memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.fake_cuda import FakeBlas, FakeCuda, fake_machine

__all__: list[str] = []


@pytest.fixture
def cuda() -> Iterator[tuple[object, FakeCuda, FakeBlas]]:
    """Machine, driver, cuBLAS; what was taken must have been given back."""
    machine, card, blas = fake_machine()
    yield machine, card, blas
    machine.close()
    assert card.memory == {}
