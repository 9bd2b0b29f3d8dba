"""Commands that look at an agent, against the fake one: plain, JSON, CSV."""

from __future__ import annotations

import asyncio
import csv
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import commands
from app.control.fake_agent import FakeAgent, load
from app.looking import settings_change
from gpugoblin.errors import AgentError
from tests.helpers.recordings import DIRECTORY


@pytest.fixture
def words(tmp_path: Path) -> Iterator[list[str]]:
    """A fake agent that runs; what finds it on the command line."""
    directory = tmp_path / "control"
    directory.mkdir(mode=0o700)
    config = tmp_path / "a.toml"
    config.write_text(f'control_directory = "{directory}"\n')
    ready, end = threading.Event(), threading.Event()

    async def serve() -> None:
        agent = FakeAgent(load(DIRECTORY / "desktop.jsonl"), directory)
        await agent.start()
        agent.step(0)
        agent.step(1)
        ready.set()
        while not end.is_set():
            await asyncio.sleep(0.01)
        await agent.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    yield ["--config", str(config)]
    end.set()
    thread.join()


def test_why_is_a_line_a_card(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.why(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:23] for line in lines] == ["Card 0: not lending, be", "Card 1: not lending, be"]
    assert commands.why([*words, "--json"]) == 0
    cards = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [card["reasons"][0]["code"] for card in cards] == ["in_use", "in_use"]


def test_status_in_plain_lines_and_json(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.status(words) == 0
    assert "profile away" in capsys.readouterr().out
    assert commands.status([*words, "--json"]) == 0
    kinds = {json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()}
    assert {"AgentItem", "CardItem", "ProbeItem", "TotalsItem"} <= kinds


def test_settings_are_shown_explained_and_changed(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.settings([*words, "heat.card_stop_c", "--explain"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "# A graphics card stops at this temperature.", "heat.card_stop_c = 83"
    ]  # fmt: skip
    assert commands.settings([*words, "heat.card_stop_c=70", "profile=nights"]) == 0
    assert 'profile = "nights"' in capsys.readouterr().out
    with pytest.raises(AgentError, match="no change"):
        commands.settings([*words, "no.such"])


def test_logs_and_history(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert commands.logs([*words, "--lines", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert commands.history([*words, "--days", "3"]) == 0
    assert "kWh" in capsys.readouterr().out
    path = tmp_path / "history.csv"
    assert commands.history([*words, "--csv", str(path)]) == 0
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 28
    assert rows[0]["energy_source"] == "rapl"
    assert commands.history([*words, "--days", "0"]) == 0
    assert "Nothing was lent" in capsys.readouterr().out.splitlines()[-1]


def test_words_of_the_owner_by_their_short_names(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.pause([*words, "--until-tomorrow"]) == 0
    assert "paused, until 00:00:00" in capsys.readouterr().out
    assert commands.resume(words) == 0
    assert commands.finish(words) == 0


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("a=1", ("a", 1)),
        ("a = true", ("a", True)),
        ("a=nights", ("a", "nights")),
        ('a=["x", "y"]', ("a", ("x", "y"))),
        ('a="x"', ("a", "x")),
        ("a=0.5", ("a", 0.5)),
        ("a=", ("a", "")),
    ],
)
def test_changes(text: str, change: tuple[str, object]) -> None:
    assert settings_change(text) == change


@pytest.mark.parametrize("text", ["", "=1", "a", "a={b=1}", "a=2026-01-01"])
def test_no_changes(text: str) -> None:
    with pytest.raises(AgentError, match="no change of a setting"):
        settings_change(text)
