"""What a lab sends to the coordinator's operator, who pastes it into a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.node import reach
from server_stub.node.commands import main
from server_stub.node.commands.common import ILL

__all__: list[str] = []


@pytest.mark.parametrize("name", ["lab-a", "Lab of Ann; reboot", "a'b $(c)"])
def test_the_line_for_the_operator_is_one_command_whatever_the_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config = str(tmp_path / "node.toml")
    state = ["--state-dir", str(tmp_path / "state")]
    assert main(["init", "--config", config, *state, "--port", "8441"]) == 0
    capsys.readouterr()

    def unknown(*_: object) -> None:
        raise CoordinatorError("coordinator_lab_unknown")

    monkeypatch.setattr(reach, "ask", unknown)
    place = ["--coordinator", "https://c.example:1", "--address", "https://lab.example:8441"]
    assert main(["register", "--config", config, *place, "--name", name]) == ILL
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "lab add" in one)
    words = shlex.split(line)
    assert words[:5] == ["gpugoblin", "coordinator", "lab", "add", name]
    assert words[5::2] == ["--key", "--address", "--certificate"]
