"""Pulses: on and off, held, and nothing after the end."""

from __future__ import annotations

import asyncio

import pytest

from app.agent import duty
from app.agent.duty import Duty


class Engine:
    def __init__(self) -> None:
        self.said: list[str] = []

    def freeze(self) -> None:
        self.said.append("freeze")

    def thaw(self) -> None:
        self.said.append("thaw")


def test_a_duty_is_pulses_and_full_duty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duty, "PERIOD_S", 0.02)

    async def script() -> list[str]:
        engine, made = Engine(), Duty()
        made.attach(engine)
        made.set(50)
        while len(engine.said) < 6:
            await asyncio.sleep(0.005)
        pulses = engine.said[:6]
        made.set(100)
        engine.said.clear()
        await asyncio.sleep(0.05)
        assert engine.said == []
        made.hold()
        made.set(30)  # it stays held
        await asyncio.sleep(0.05)
        assert engine.said == ["freeze"]
        made.release()
        made.detach()
        engine.said.clear()
        await asyncio.sleep(0.05)
        assert engine.said == []
        return pulses

    assert asyncio.run(script()) == ["thaw", "freeze"] * 3
