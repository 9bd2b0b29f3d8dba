"""The loop's own duties: start, defects, settings. The whole is tested end to end."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.agent import EXIT_FAILED, Agent
from app.agent.model import Model
from app.agent.settings import read_settings
from app.control.client import ControlClient
from app.control.messages import AgentItem, Doctor, Report, SettingsSet
from gpugoblin.errors import AgentError
from tests.helpers.agent_network import eventually
from tests.helpers.agent_run import Scene
from tests.helpers.stub_engine import StubMaker


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def test_what_keeps_it_from_starting_leaves_nothing_held(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        f'state_directory = "{tmp_path / "state"}"\n[coordinator]\naddress = "c.example.org"\n'
    )
    for _ in range(2):  # the second time the directory must not be in use
        with pytest.raises(AgentError) as caught:
            Agent(read_settings(path), lambda _: None)
        assert caught.value.code == "address_refused"


@pytest.mark.parametrize("name", ["intents.json", "settings.json", "cache"])
def test_a_damaged_state_is_told_and_nothing_is_held(scene: Scene, name: str) -> None:
    scene.state.mkdir(mode=0o700)
    (scene.state / name).write_bytes(b"{")
    for _ in range(2):
        with pytest.raises(AgentError, match=name) as caught:
            Agent(read_settings(scene.config), lambda _: None)
        assert caught.value.code in ("state_damaged", "cache_failed")


def test_a_damaged_journal_is_an_error_with_a_next_step(scene: Scene) -> None:
    scene.state.mkdir(mode=0o700)
    (scene.state / "journal.db").write_bytes(b"no database" * 1000)
    with pytest.raises(AgentError, match="Move it away") as caught:
        Agent(read_settings(scene.config), lambda _: None)
    assert caught.value.code == "state_damaged"


def test_a_defect_ends_the_agent_and_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "problems", lambda _: iter(["something is wrong"]))
    assert scene.lend(lambda: eventually(lambda: scene.said("Ended")), StubMaker()) == EXIT_FAILED
    assert scene.said("found its own state unsound: something is wrong")


def test_an_unforeseen_error_in_the_loop_ends_the_agent(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("app.agent.owner.Owner.events", fails)
    assert scene.lend(lambda: eventually(lambda: scene.said("Ended")), StubMaker()) == EXIT_FAILED
    assert "ZeroDivisionError" in caplog.text


def test_owner_settings_of_the_last_run_hold(scene: Scene) -> None:
    first = Agent(read_settings(scene.config), lambda _: None, make_engine=StubMaker())
    first.state.change_settings(first.settings, 0, {"queue.prefetch": 6})
    asyncio.run(ended(first))
    second = Agent(read_settings(scene.config), lambda _: None, make_engine=StubMaker())
    assert second.machine.model.limits.prefetch == 6
    asyncio.run(ended(second))


async def ended(agent: Agent) -> None:
    running = asyncio.create_task(agent.run())
    await asyncio.sleep(0)
    agent.ask_to_end()
    assert await running == 0


def test_without_a_coordinator_it_starts_says_so_and_takes_the_one_that_is_named(
    scene: Scene,
) -> None:
    whole = scene.config.read_text()
    begin = whole.index("[coordinator]")
    end = whole.index("\n[", begin)
    scene.fixed_config = scene.directory / "without.toml"
    scene.fixed_config.write_text(whole[:begin] + whole[end:])
    named = tomllib.loads(whole)["coordinator"]

    def script() -> None:
        eventually(lambda: scene.said("No coordinator is named"))
        with ControlClient(read_settings(scene.config).control_directory) as control:
            agent = control.status()["agent"]
            assert isinstance(agent, AgentItem)
            assert (agent.coordinator, agent.state) == ("", "not_enrolled")
            report = control.ask(Doctor(control.number()))
            assert isinstance(report, Report)
            ill = {one.subject for one in report.findings if not one.is_well}
            assert {"coordinator", "enrolment"} <= ill
            values = {f"coordinator.{name}": value for name, value in named.items()}
            control.ask(SettingsSet(control.number(), 0, values))
        eventually(lambda: scene.said("approve the code"))

    assert scene.lend(script, StubMaker()) == 0
    again = Agent(read_settings(scene.config), lambda _: None, make_engine=StubMaker())
    assert again.settings.text("coordinator.address") == named["address"]
    asyncio.run(ended(again))


def test_an_edited_file_is_followed_without_a_signal(scene: Scene) -> None:
    scene.fixed_config = scene.config

    def script() -> None:
        agent = scene.agent
        assert agent is not None
        assert scene.fixed_config is not None
        loop = eventually(lambda: agent._ended).get_loop()
        with scene.fixed_config.open("a") as file:
            file.write("[queue]\nprefetch = 9\n")

        def is_followed() -> bool:
            loop.call_soon_threadsafe(agent.post)  # it is awake, for whatever reason
            return agent.settings.number("queue.prefetch") == 9

        eventually(is_followed)

    scene.lend(script, StubMaker())
    assert scene.said("settings")
