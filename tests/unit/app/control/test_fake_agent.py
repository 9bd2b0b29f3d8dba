"""The fake agent: recordings are whole, and every request has a believable answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from app.control import messages as m
from app.control.client import ControlClient, ControlRefusal
from app.control.fake_agent import FakeAgent, Recording, load
from gpugoblin.errors import AgentError
from tests.helpers.recordings import BEGIN_S, DIRECTORY, RECORDINGS


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_recordings_are_what_the_policy_makes_of_their_days(name: str) -> None:
    """`python -m tests.helpers.recordings` writes them again. Settings may have come since."""
    kept, made = load(DIRECTORY / f"{name}.jsonl"), RECORDINGS[name]()
    assert kept.steps == made.steps
    assert kept.scene.history == made.scene.history
    assert kept.scene.values.keys() == {setting.name for setting in kept.scene.settings}


@pytest.mark.parametrize(
    ("data", "line"), [(b"", 1), (b"{}\n", 1), (b'{"begin_s":1.0}\n{"after_s":"x"}\n', 2)]
)
def test_a_broken_recording_names_its_line(tmp_path: Path, data: bytes, line: int) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(data)
    with pytest.raises(AgentError, match=f"at line {line}"):
        load(path)


def recording(name: str = "desktop") -> Recording:
    return load(DIRECTORY / f"{name}.jsonl")


def serve(agent: FakeAgent, script: Callable[[], None]) -> None:
    async def whole() -> None:
        await agent.start()
        agent.step(0)
        try:
            await asyncio.to_thread(script)
        finally:
            await agent.close()

    asyncio.run(whole())


def test_it_shows_and_answers_everything(tmp_path: Path) -> None:
    agent = FakeAgent(recording(), tmp_path, moves=False)

    def script() -> None:
        with ControlClient(tmp_path) as client:
            items = client.status()
            assert {"agent", "card-0", "card-1", "probe-idle", "totals"} <= set(items)
            declared = client.ask(m.SettingsDescribe(1))
            assert isinstance(declared, m.SettingsDeclared)
            assert "heat.card_stop_c" in {each.name for each in declared.settings}
            changed = client.ask(m.SettingsSet(2, 0, {"heat.card_stop_c": 70}))
            assert isinstance(changed, m.SettingsAre)
            assert (changed.revision, changed.values["heat.card_stop_c"]) == (1, 70)
            with pytest.raises(ControlRefusal, match="revision 1"):
                client.ask(m.SettingsSet(2, 0, {"heat.card_stop_c": 71}))
            history = client.ask(m.History(3, limit=5))
            assert isinstance(history, m.HistoryIs)
            assert (len(history.rows), history.is_all) == (5, False)
            logs, findings = client.ask(m.Logs(4, 2)), client.ask(m.Doctor(5))
            assert isinstance(logs, m.LogsAre)
            assert isinstance(findings, m.Report)
            assert len(logs.lines) == 2
            assert client.ask(m.EnrolPoll(6)) == m.EnrolIs(6, "enrolled")

    serve(agent, script)


def test_first_steps_have_believable_answers(tmp_path: Path) -> None:
    agent = FakeAgent(recording("troubles"), tmp_path, moves=False)

    def script() -> None:
        with ControlClient(tmp_path) as client:
            waits = client.ask(m.EnrolPoll(1))
            assert isinstance(waits, m.EnrolIs)
            assert waits.state == "waiting"
            client.ask(m.SigninBegin(2, "ann@example.org"))
            with pytest.raises(ControlRefusal, match="8 digits"):
                client.ask(m.SigninCode(3, "1234"))
            client.ask(m.SigninCode(4, "1234 5678"))
            assert client.ask(m.EnrolPoll(5)) == m.EnrolIs(5, "enrolled")
            with pytest.raises(ControlRefusal):
                client.ask(m.SigninBegin(6, "ann@example.org"))
            now, always = (
                client.ask(m.Preview(7, {"profile": word})) for word in ("away", "always")
            )
            assert isinstance(now, m.PreviewIs)
            assert isinstance(always, m.PreviewIs)
            assert [card.card for card in now.cards] == [0, 1]
            assert {card.ruling for card in always.cards} == {"THROTTLE"}
            shown = client.ask(m.SelfTest(8, 1))
            assert isinstance(shown, m.SelfTestIs)
            assert shown.flops_per_s > 0
            with pytest.raises(ControlRefusal, match="no card 9"):
                client.ask(m.SelfTest(9, 9))

    serve(agent, script)


def test_the_owners_word_holds_over_the_recording(tmp_path: Path) -> None:
    agent = FakeAgent(recording(), tmp_path, moves=False)

    def script() -> None:
        with ControlClient(tmp_path) as client:
            client.ask(m.Pause(1, "i", (1,), BEGIN_S + 60))
            agent.step(2)
            card = client.status()["card-1"]
            assert isinstance(card, m.CardItem)
            assert (card.ruling, card.reasons[0].code) == ("STOP", "owner_paused")
            client.ask(m.Resume(2, "j"))
            card = client.status()["card-1"]
            assert isinstance(card, m.CardItem)
            assert card.ruling == "RUN"
            with pytest.raises(ControlRefusal):
                client.ask(m.Stop(3, "k", (9,)))

    serve(agent, script)


def test_moments_move_to_now(tmp_path: Path) -> None:
    agent = FakeAgent(recording("laptop"), tmp_path, now_s=lambda: BEGIN_S + 5000.0)

    def script() -> None:
        with ControlClient(tmp_path) as client:
            card, item = client.status()["card-0"], client.status()["agent"]
            assert isinstance(card, m.CardItem)
            assert isinstance(item, m.AgentItem)
            still = recording("laptop").steps[0].changed
            before = next(each for each in still if isinstance(each, m.CardItem))
            assert card.until_s is not None
            assert before.until_s is not None
            assert card.until_s - before.until_s == 5000.0
            assert card.reasons[0].fields["last_at_s"] == BEGIN_S + 1000.0

    serve(agent, script)


def test_it_plays_to_followers_and_ends_when_asked(tmp_path: Path) -> None:
    agent = FakeAgent(recording("sixteen"), tmp_path, speed=1e6)
    seen: list[int] = []

    def follow() -> None:
        with ControlClient(tmp_path) as client:
            for items in client.follow():
                seen.append(sum(isinstance(item, m.CardItem) for item in items.values()))
                if len(seen) > 4:
                    break
        with ControlClient(tmp_path) as client:
            client.ask(m.Quit(1))

    async def whole() -> None:
        await agent.start()
        following = asyncio.create_task(asyncio.to_thread(follow))
        while not agent._server._subscribers:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(agent.play(), 20)
        await following
        await agent.close()

    asyncio.run(whole())
    assert seen[-1] == 16
