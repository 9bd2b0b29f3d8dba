"""The short names are those of the agent's commands, and `app` has two faces."""

from __future__ import annotations

import pytest

from app import commands
from gpugoblin.errors import AgentError


def test_with_console_no_window_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(commands, "main", lambda words: seen.append(list(words)) or 7)
    assert commands.app(["--console", "--config", "x"]) == 7
    assert seen == [["--console", "--config", "x"]]


def test_without_console_a_window_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AgentError, match="display_missing"):
        commands.app(["--no-agent", "--control-directory", "/nowhere"])


@pytest.mark.parametrize("name", sorted(set(commands.__all__) - {"app"}))
def test_each_short_name_is_the_agents_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(commands, "agent_command", lambda words: seen.append(list(words)) or 0)
    assert getattr(commands, name)(["--json"]) == 0
    assert seen == [[name, "--json"]]
