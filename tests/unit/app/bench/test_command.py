from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.agent.settings import Settings
from app.bench import command
from app.bench.command import bench
from app.bench.measure import Figure
from app.host.cards import Discovery, FoundCard
from app.host.engine import Engine
from gpugoblin.errors import EngineError
from tests.helpers.software_card import only_software
from tests.unit.app.bench.test_measure import Clock

FIGURES = [
    Figure("memory, read and written", 4012.5, "GB/s", 1 << 26),
    Figure("one more kernel in a task", 2.71, "us", 256),
    Figure("float32 product", 46.3, "TFLOP/s", 8192),
    Figure("exact product", None, "TFLOP/s", 0),
]


class Ready:
    driver, level, classes = "vulkan-driver-1", "full", ("float32",)


class Handle:
    """An engine that is ready."""

    ready = Ready()
    closed = 0

    def close(self) -> None:
        Handle.closed += 1


def card(name: str, **changes: object) -> FoundCard:
    """As it is found, from what one of this machine's own has."""
    known = {
        field: getattr(only_software().cards[0], field) for field in FoundCard.__struct_fields__
    }
    return FoundCard(**{**known, "name": name, "kind": "discrete", **changes})


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Which cards the machine has, and that all of them are measured alike."""

    def started(settings: Settings, folder: Path, found: FoundCard) -> object:
        assert folder.is_dir()
        if found.name == "broken":
            raise EngineError("card_missing", backend="vulkan", reason="it is gone")
        return Handle()

    def has(*cards: FoundCard) -> None:
        monkeypatch.setattr(command, "find_cards", lambda: Discovery(cards, ()))

    Handle.closed = 0
    monkeypatch.setattr(command, "start_card_engine", started)
    monkeypatch.setattr(command, "measured", lambda *given: FIGURES)
    return has


def test_table(found: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    found(card("one"), card("broken"))
    assert bench(["card"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "one: vulkan-driver-1, sandbox full"
    assert lines[1].split()[-4:] == ["4012", "GB/s", "(67108864", "elements)"]
    assert lines[2].split()[-2:] == ["2.71", "us"]
    assert lines[3].endswith("46.3 TFLOP/s (8192 rows and columns)")
    assert lines[4].endswith("not reached within the time and memory")
    assert lines[5].startswith("broken: not measured. ")
    assert "it is gone" in lines[5]
    assert Handle.closed == 1


def test_many_cards_have_their_own_time_and_are_told_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
    found: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Eight engines that take three seconds to start leave each card the rest of its own time."""
    clock = Clock()
    left_s: list[float] = []
    told: list[str] = []

    def started(settings: Settings, folder: Path, found: FoundCard) -> object:
        told.append(capsys.readouterr().out)
        clock.now_s += 3.0
        return Handle()

    def measured(timer: object, own: object, memory: int, ends_s: float, classes: object) -> Any:
        left_s.append(ends_s - clock.monotonic_s())
        clock.now_s = ends_s
        return FIGURES

    found(*(card(f"card {number}") for number in range(8)))
    monkeypatch.setattr(command, "start_card_engine", started)
    monkeypatch.setattr(command, "measured", measured)
    monkeypatch.setattr(command, "SystemClock", lambda: clock)
    assert bench(["card"]) == 0
    assert left_s == [command.LIMIT_S - 3.0] * 8
    assert [text.split(":")[0] for text in told] == ["", *(f"card {each}" for each in range(7))]


def test_json(found: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    found(card("one"))
    assert bench(["card", "--json"]) == 0
    (told,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert told["name"] == "one"
    assert told["figures"][0] == {
        **{"what": "memory, read and written", "value": 4012.5},
        **{"unit": "GB/s", "size": 1 << 26},
    }
    assert told["figures"][3]["value"] is None


def test_no_card(found: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """Neither one that cannot be computed on nor, unasked, one that the processor computes."""
    found(card("old", unsuited="It has no Vulkan 1.2."), card("soft", kind="software"))
    assert bench(["card"]) == 3
    assert "doctor" in capsys.readouterr().err
    assert bench(["card", "--software"]) == 0


@pytest.mark.slow
def test_a_software_card_in_its_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cards = only_software()
    monkeypatch.setattr(command, "find_cards", lambda: cards)
    monkeypatch.setattr(command, "LIMIT_S", 1.0)
    assert bench(["card", "--json", "--software"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["level"] == "full"
    assert [figure["what"] for figure in told["figures"]][1:3] == [
        "one more kernel in a task",
        "float32 product",
    ]
    assert told["figures"][1]["value"] > 0


def test_engine_is_what_the_agent_starts() -> None:
    assert command.start_card_engine.__module__ == "app.agent.card_start"
    assert command.engine_timer.__annotations__["engine"] in ("Engine", Engine)
