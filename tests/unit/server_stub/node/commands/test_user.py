"""Tokens on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node.commands import main

__all__: list[str] = []


def test_users_are_added_listed_and_revoked(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["user", "add", "--config", str(config), "ann", "--scope", "read"]) == 0
    assert capsys.readouterr().out.startswith("goblin_")
    assert main(["user", "add", "--config", str(config), "ann"]) == 1
    assert "[user_exists]" in capsys.readouterr().err
    assert main(["user", "list", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "ann\n"
    assert main(["user", "revoke", "--config", str(config), "ann"]) == 0
    assert main(["user", "revoke", "--config", str(config), "ann"]) == 1
    capsys.readouterr()
    assert main(["user", "list", "--config", str(config)]) == 0
    assert "(revoked)" in capsys.readouterr().out
