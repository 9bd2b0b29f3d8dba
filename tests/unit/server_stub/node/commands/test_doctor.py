"""What works and what does not, in lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node import disk_rate
from server_stub.node.commands import doctor, main

__all__: list[str] = []


def test_doctor_names_what_has_to_be_done(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", str(config)]) == 3
    out = capsys.readouterr().out
    assert "not well  no node answers at" in out
    assert "well      state directory" in out


def test_a_slow_disk_and_one_that_takes_nothing(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_rate, "measure", lambda _: 3e6)
    main(["doctor", "--config", str(config)])
    assert "put state_dir on another disk" in capsys.readouterr().out

    def full(_: Path) -> float:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_rate, "measure", full)
    main(["doctor", "--config", str(config)])
    assert "takes no file of 32 MiB: No space left" in capsys.readouterr().out


def test_a_node_of_another_version_is_to_be_started_again(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_running_version", lambda _: "0.0.1")
    main(["doctor", "--config", str(config)])
    assert "the node that runs is of version 0.0.1" in capsys.readouterr().out
