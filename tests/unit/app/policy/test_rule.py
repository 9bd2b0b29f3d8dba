"""The order of rulings."""

from __future__ import annotations

from app.policy.rule import Ruling


def test_stricter_is_larger() -> None:
    assert Ruling.RUN < Ruling.THROTTLE < Ruling.FREEZE < Ruling.STOP
