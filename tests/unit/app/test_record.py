"""The recorder writes what probes see, as it changes, into a file of its own."""

from __future__ import annotations

import asyncio
import io
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.policy.recording import read
from app.policy.snapshot import CardFacts, LoadFacts, PlayFacts, PowerFacts
from app.probes.gather import Machine
from app.probes.idle.source import Input
from app.record import Recorder, machine_here, record
from gpugoblin.errors import AgentError
from tests.unit.app.agent.test_sixteen_cards import Look

NOWHERE = {
    "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere",
}


def machine() -> tuple[Machine, dict[str, Any]]:
    """A server whose probes see what the test says."""
    seen: dict[str, Any] = {
        "terminals": Input(time.time() - 900.0), "play": PlayFacts(), "power": PowerFacts(),
        "load": LoadFacts(1.0, 2**34, 2**36),
        "cards": {"cpu": CardFacts(0, "cpu"), "GPU-secret": CardFacts(0, "cuda"),
                  "0000:01:00.0": CardFacts(0, "cuda")},
    }  # fmt: skip
    looks = {name: Look(name, fact) for name, fact in seen.items()}
    polled = tuple(looks.values())
    return replace(machine_here(), polled=polled, environment=lambda: NOWHERE), looks


def recorded(span_s: float, script: Callable[[Recorder, dict[str, Any]], Any]) -> bytes:
    file = io.BytesIO()

    async def whole() -> None:
        here, looks = machine()
        recorder = Recorder(file, here)
        work = asyncio.ensure_future(script(recorder, looks))
        await recorder.run(span_s)
        await work
        assert recorder.lines == file.getvalue().count(b"\n")

    asyncio.run(whole())
    return file.getvalue()


def test_each_change_is_a_line_and_no_name_is_in_it() -> None:
    async def script(recorder: Recorder, looks: dict[str, Any]) -> None:
        await asyncio.sleep(0.5)
        recorder.mark("game")
        looks["play"].fact = PlayFacts(("Secret Game",))
        recorder.probes.look_again()

    data = recorded(1.5, script)
    assert b"ecret" not in data
    found = read(data.splitlines())
    assert [act.what for act in found.acts] == ["game"]
    assert found.facts[0].play == PlayFacts()
    assert found.facts[-1].play == PlayFacts(("game 1",))
    assert [(each.card, each.identity) for each in found.facts[-1].cards] == [
        (0, "card-0"), (1, "card-1")
    ]  # fmt: skip
    assert found.facts[-1].at_s >= found.acts[0].at_s
    assert found.span_s >= 1.5


def test_a_clock_that_is_set_meanwhile_leaves_order_and_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An hour back, as where the clock keeps local time: the file can still be read."""
    true_s, set_s = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true_s() + set_s[0])

    async def script(recorder: Recorder, looks: dict[str, Any]) -> None:
        await asyncio.sleep(0.5)
        set_s[0] = -3600.0
        looks["terminals"].fact = Input(time.time() - 900.0)
        looks["play"].fact = PlayFacts(("Secret Game",))
        recorder.probes.look_again()

    found = read(recorded(1.5, script).splitlines())
    assert found.facts[-1].play == PlayFacts(("game 1",))
    assert 1.4 <= found.span_s < 1800
    assert found.facts[-1].at_s < 1800
    idle = found.facts[-1].idle
    assert idle is not None
    assert -1000 < idle.last_input_s < -800


def test_probes_end_when_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            if data.startswith(b'{"type":"end"'):
                raise OSError(28, "No space left on device")
            return super().write(data)

    closed = []

    async def whole() -> None:
        recorder = Recorder(Full(), machine()[0])
        close = recorder.probes.close

        async def counted() -> None:
            closed.append(True)
            await close()

        monkeypatch.setattr(recorder.probes, "close", counted)
        await recorder.run(0.3)

    with pytest.raises(OSError, match="No space"):
        asyncio.run(whole())
    assert closed == [True]


def test_one_that_is_ended_sooner_is_whole() -> None:
    async def script(recorder: Recorder, looks: dict[str, Any]) -> None:
        await asyncio.sleep(0.5)

    file = io.BytesIO()

    async def whole() -> None:
        recorder = Recorder(file, machine()[0])
        task = asyncio.ensure_future(recorder.run(60.0))
        await asyncio.sleep(0.7)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(whole())
    assert read(file.getvalue().splitlines()).span_s < 60.0


def test_a_file_is_made_for_its_owner_alone_and_none_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "hour.jsonl"
    lines = record(path, 0.5, machine()[0])
    data = path.read_bytes()
    assert lines == data.count(b"\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for place in (path, tmp_path / "none" / "x", tmp_path):
        with pytest.raises(AgentError) as error:
            record(place, 0.1, machine()[0])
        assert error.value.code == "recording_unwritable"
    assert path.read_bytes() == data
