"""Buses that are not there: what that means for each fact. Services are tested in test_gather."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC
from pathlib import Path

from app.policy.snapshot import PlayFacts, PowerFacts
from app.probes.board import FactBoard
from app.probes.buses import Buses
from app.probes.idle.source import Input
from app.probes.machine import Machine
from app.probes.parts import Parts

NOWHERE = {
    "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere",
}
FACTS = {"idle", "play", "power", "network"}


def watched(environment: dict[str, str]) -> FactBoard:
    """The facts after both buses were tried once, beside terminals that say something."""

    async def whole() -> FactBoard:
        board = FactBoard(lambda: None, lambda: UTC)
        parts = Parts(board.tell, lambda: (3, 4))
        machine = Machine(
            lambda: 100.0, Path("/"), list, list, list, lambda: (3, 4), lambda: environment
        )
        buses = Buses(board, machine, parts)
        parts.put_input("terminals", Input(5.0))
        parts.put_scan(PlayFacts(), "")
        parts.put_supplies(PowerFacts(), "")
        tasks = [asyncio.ensure_future(each()) for each in (buses.system, buses.session)]
        async with asyncio.timeout(10):
            while not board.reports.keys() >= FACTS:
                await asyncio.sleep(0.01)
        buses.let_sleep()  # there is no logind that waits for it
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        assert buses.environment() == environment
        return board

    return asyncio.run(whole())


def test_without_buses_a_machine_is_a_server() -> None:
    now = watched(NOWHERE).snapshot(100.0, 0.0, [])
    assert now.idle is not None
    assert now.idle.last_input_s == 5.0
    assert (now.play, now.power) == (PlayFacts(), PowerFacts())
    assert now.network is not None
    assert (now.network.metered, now.network.day_bytes) == ("untold", 3)


def test_a_display_without_a_bus_is_a_desktop_that_nothing_speaks_for() -> None:
    board = watched({**NOWHERE, "DISPLAY": ":77"})
    assert board.snapshot(100.0, 0.0, []).idle is None
    assert "a desktop runs here" in board.reports["idle"].line
