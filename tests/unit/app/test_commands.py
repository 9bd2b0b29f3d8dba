"""The short names are the commands of the agent, and say what they are for."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from app import commands
from app.main import _parser


@pytest.mark.parametrize("name", [name for name in commands.__all__ if name != "app"])
def test_a_short_name_is_a_command_of_the_agent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[list[str]] = []
    monkeypatch.setattr(commands, "agent_command", lambda words: said.append(list(words)) or 0)
    assert getattr(commands, name)(["--x"]) == 0
    assert said == [[name, "--x"]]
    assert _parser().parse_args([name]).command == name
    assert getattr(commands, name).__doc__


def test_all_are_installed() -> None:
    installed = {entry.name for entry in entry_points(group="gpugoblin.commands")}
    assert set(commands.__all__) <= installed
