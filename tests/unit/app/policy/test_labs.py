"""Which labs a card computes for."""

from __future__ import annotations

from app.policy.labs import accepts
from tests.helpers.situations import choices


def test_lists() -> None:
    assert accepts(choices(), "lab_a")
    assert not accepts(choices(labs__refuse=["lab_a"]), "lab_a")
    assert accepts(choices(labs__accept=["lab_a"]), "lab_a")
    assert not accepts(choices(labs__accept=["lab_a"]), "lab_b")
    assert not accepts(choices(labs__accept=["lab_a"], labs__refuse=["lab_a"]), "lab_a")
