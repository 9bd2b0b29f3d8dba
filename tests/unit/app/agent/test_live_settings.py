"""What a change of settings means for a running agent; the whole is tested with the agent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from app.agent.events import LabRefused, Tick
from app.agent.live_settings import accepted, follow, limits_of, take
from app.agent.model import Limits
from app.agent.settings import Settings, read_settings
from gpugoblin.errors import SettingsError
from gpugoblin.ids import GrantId


class FakeAgent:
    """What of an agent a change touches, and what it said and posted."""

    def __init__(self) -> None:
        self.settings = read_settings(None)
        self.settings_fault = ""
        self.said: list[str] = []
        self.posted: list[Any] = []
        self.speech = SimpleNamespace(say=lambda code, **fields: self.said.append(code))
        self.owner = SimpleNamespace(choices=self.settings.choices())
        grants = {GrantId("grant_a"): SimpleNamespace(lab="lab_tides")}
        self.machine = SimpleNamespace(model=SimpleNamespace(grants=grants, limits=Limits()))
        self.moved: list[object] = []
        self.joining = SimpleNamespace(
            is_enrolled=False, refuse=lambda peer: None, move=self.moved.append
        )
        self.state = SimpleNamespace(owner_settings=lambda: SimpleNamespace(values={}))

    def post(self, *events: Any) -> None:
        self.posted.append(events)


def changed(**values: Any) -> Settings:
    given = {name.replace("__", "."): value for name, value in values.items()}
    return Settings({**read_settings(None).values, **given})


def test_the_pace_comes_from_the_settings() -> None:
    limits = limits_of(changed(queue__prefetch=7, results__limit_bytes=2**21))
    assert (limits.prefetch, limits.kept_bytes) == (7, 2**21)


def test_a_change_reaches_every_part() -> None:
    agent: Any = FakeAgent()
    settings = changed(queue__prefetch=5, labs__refuse=("lab_tides",))
    take(agent, settings)
    assert agent.settings is settings
    assert agent.owner.choices == settings.choices()
    assert agent.machine.model.limits.prefetch == 5
    assert agent.posted == [(LabRefused(lab="lab_tides"),), ()]
    assert len(agent.moved) == 1


def test_a_file_that_is_wrong_keeps_the_last_good_ones() -> None:
    agent: Any = FakeAgent()
    before = agent.settings

    def broken() -> Settings:
        raise SettingsError("setting_invalid", name="a.b", value="9", source="x", reason="no")

    file: Any = SimpleNamespace(read=broken)
    follow(agent, file)
    assert agent.settings is before
    assert "a.b" in agent.settings_fault
    assert agent.said == ["settings_kept"]
    file.read = lambda: changed(queue__prefetch=6)
    follow(agent, file)
    assert (agent.settings_fault, agent.machine.model.limits.prefetch) == ("", 6)
    assert agent.said == ["settings_kept", "settings_read"]


def test_other_events_pass_as_they_are() -> None:
    agent: Any = FakeAgent()
    event = Tick()
    assert accepted(agent, event) is event
