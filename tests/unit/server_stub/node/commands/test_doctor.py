"""What works and what does not, in lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node.commands import main

__all__: list[str] = []


def test_doctor_names_what_has_to_be_done(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", str(config)]) == 3
    out = capsys.readouterr().out
    assert "not well  no node answers at" in out
    assert "well      state directory" in out
