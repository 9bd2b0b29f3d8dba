"""Probes that look: periods, faults, and a look that hangs holds no other up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.probes import polls
from app.probes.polls import Pace, Polled, Polls
from tests.helpers.agent_network import eventually


class Look:
    """A probe that does what the test says."""

    def __init__(self, name: str, act: Callable[[], Any] = lambda: 1, period_s: float = 0.01):
        self.name = name
        self.periods_s: dict[Pace, float] = {"off": 60.0, "waiting": 60.0, "lending": period_s}
        self.act = act
        self.count = 0

    def look(self) -> object:
        self.count += 1
        return self.act()


class Heard:
    """What was told, by name."""

    def __init__(self) -> None:
        self.told: dict[str, list[tuple[Any, str]]] = {}

    def __call__(self, probe: Polled, seen: Any, why: str) -> None:
        self.told.setdefault(probe.name, []).append((seen, why))

    def last(self, name: str) -> tuple[Any, str]:
        return self.told.get(name, [(None, "")])[-1]


def test_everything_is_looked_at_and_again() -> None:
    heard, quick, slow = Heard(), Look("quick"), Look("slow", period_s=60.0)
    looking = Polls([quick, slow], heard)
    looking.start()
    eventually(lambda: quick.count > 3 and slow.count == 1)
    looking.look_again()
    eventually(lambda: slow.count == 2)
    looking.close()


def test_a_fault_is_told_in_one_line() -> None:
    def fails() -> None:
        raise OSError(5, "the driver is ill")

    heard = Heard()
    looking = Polls([Look("ill", fails)], heard)
    looking.start()
    eventually(lambda: "ill" in heard.told)
    looking.close()
    assert heard.last("ill")[0] is None
    assert "the driver is ill" in heard.last("ill")[1]


def test_a_look_that_hangs_holds_no_other_up_and_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polls, "DEADLINE_S", 0.05)
    release = threading.Event()
    heard, well = Heard(), Look("well")
    hangs = Look("hangs", lambda: release.wait(30))
    looking = Polls([hangs, well], heard)
    looking.start()

    def is_told() -> bool:
        looking.check()
        return "has not answered" in heard.last("hangs")[1]

    eventually(is_told)
    before = well.count
    eventually(lambda: well.count > before + 2)
    assert hangs.count == 1
    release.set()
    eventually(lambda: heard.last("hangs") == (True, ""))
    looking.close()


def test_a_slower_pace_looks_less_and_a_quicker_one_at_once() -> None:
    heard, probe = Heard(), Look("p")
    looking = Polls([probe], heard)
    looking.set_pace("off")
    looking.start()
    eventually(lambda: probe.count == 1)
    looking.set_pace("lending")
    eventually(lambda: probe.count > 3)
    looking.close()
