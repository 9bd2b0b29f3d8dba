"""The idle alarms, against a real X server and a real key."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from app.probes.desktop.xconnection import XConnection
from app.probes.idle import x11
from app.probes.idle.source import Input
from tests.helpers.desktop import type_key, x_server

pytestmark = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="no Xvfb on this machine")


def test_b1187_a_key_is_activity_and_then_comes_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x11, "IDLE_AFTER_S", 0.2)

    async def script(environment: dict[str, str]) -> list[Input]:
        connection = await XConnection.open(environment)
        alarm = x11.IdleAlarm(connection, lambda: 1000.0)
        told: list[Input] = [await alarm.start()]

        async def until(is_active: bool) -> None:
            while True:
                found = alarm.take(await connection.event())
                if found is not None:
                    told.append(found)
                    if found.is_active == is_active:
                        return

        if told[-1].is_active:
            await asyncio.wait_for(until(False), 10)
        for _ in range(2):  # the alarms stay armed
            await asyncio.to_thread(type_key, environment["DISPLAY"])
            await asyncio.wait_for(until(True), 10)
            await asyncio.wait_for(until(False), 10)
        connection.close()
        return told

    with x_server() as environment:
        told = asyncio.run(script(environment))
    assert told[-2:] == [Input(1000.0, is_active=True), Input(999.8)]
