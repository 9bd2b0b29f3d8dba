"""Requests on the control socket reach the right part of the agent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.agent.handlers import Handlers
from app.agent.settings import read_settings
from app.agent.state import OwnerSettings
from app.control.messages import (
    Accepted,
    Finish,
    Hello,
    Pause,
    Quit,
    Request,
    Resume,
    SettingsAre,
    SettingsGet,
    SettingsSet,
    Stop,
)
from app.policy.intent import Intent
from gpugoblin.errors import AgentError


class FakeAgent:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.settings = read_settings(None)
        self.revision = 0
        self.owner = SimpleNamespace(
            wants=lambda intent, cards: self.calls.append((intent, cards)) is None
        )
        self.state = SimpleNamespace(
            owner_settings=lambda: OwnerSettings(self.revision),
            change_settings=self.change,
        )

    def change(self, settings: Any, revision: int, values: Any) -> Any:
        self.revision = revision + 1
        return settings.changed(values), OwnerSettings(self.revision)

    def change_settings(self, settings: Any) -> None:
        self.settings = settings

    def post(self, *_: Any) -> None:
        self.calls.append("post")

    def ask_to_end(self) -> None:
        self.calls.append("end")


def ask(agent: FakeAgent, request: Request) -> Any:
    handlers: Any = Handlers(agent)  # type: ignore[arg-type]
    return asyncio.run(handlers(request))


@pytest.mark.parametrize(
    ("request_", "intent"),
    [
        (Pause(1, "i", (0,), 5.0), Intent("pause", "i", 5.0)),
        (Finish(1, "i", (0,)), Intent("finish", "i")),
        (Stop(1, "i", (0,)), Intent("stop", "i")),
        (Resume(1, "i", (0,)), Intent("resume", "i")),
    ],
)
def test_verbs_are_intents(request_: Request, intent: Intent) -> None:
    agent = FakeAgent()
    assert ask(agent, request_) == Accepted(1, "i", True)
    assert agent.calls == [(intent, (0,)), "post"]


def test_quit_ends() -> None:
    agent = FakeAgent()
    assert ask(agent, Quit(4)) == Accepted(4, "", True)
    assert agent.calls == ["end"]


def test_settings_are_read_and_changed() -> None:
    agent = FakeAgent()
    before = ask(agent, SettingsGet(1))
    assert isinstance(before, SettingsAre)
    assert before.revision == 0
    after = ask(agent, SettingsSet(2, 0, {"queue.prefetch": 5}))
    assert (after.revision, after.values["queue.prefetch"]) == (1, 5)


def test_a_second_hello_is_no_request() -> None:
    with pytest.raises(AgentError):
        ask(FakeAgent(), Hello(1))
