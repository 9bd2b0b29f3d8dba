"""Quotas on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node.commands import main

__all__: list[str] = []


def test_limits_are_set_kept_and_removed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(*words: str) -> str:
        assert main(["quota", *words, "--config", str(config)]) == 0
        return capsys.readouterr().out

    assert say("show") == ""
    assert say("set", "ann", "--disk-gb", "2", "--weight", "3").startswith("ann: disk ")
    say("set", "ann", "--tasks", "500")
    (line,) = say("show").splitlines()
    assert "GB" in line or "GiB" in line
    assert "tasks 0 of 500, hours of volunteers this month 0.00 of no limit" in line
    assert say("set", "everybody", "--tasks", "9").startswith(
        "everybody: disk no limit, tasks 9, hours"
    )
    assert "tasks 0 of 9," in say("set", "ann", "--tasks", "none").splitlines()[1]
    assert say("set", "ann", "--grid-hours", "1.5").splitlines()[1].endswith("0.00 of 1.5")
    assert say("set", "ann", "--grid-hours", "none").splitlines()[1].endswith("of no limit")
    for name, weight in (("ann", "0"), ("everybody", "2")):
        words = ["quota", "set", name, "--weight", weight, "--config", str(config)]
        assert main(words) == 1
        assert "[parameter_invalid]" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["-1", "nan", "inf", "1e400", "many"])
def test_no_limit_is_said_by_none_alone(
    config: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    for option in ("--tasks", "--disk-gb", "--grid-hours"):
        with pytest.raises(SystemExit):
            main(["quota", "set", "ann", f"{option}={words}", "--config", str(config)])
        assert "`none`" in capsys.readouterr().err
