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
    assert capsys.readouterr().out == "ann  researcher\n    default: read, valid\n"
    assert main(["user", "revoke", "--config", str(config), "ann"]) == 0
    assert main(["user", "revoke", "--config", str(config), "ann"]) == 1
    capsys.readouterr()
    assert main(["user", "list", "--config", str(config)]) == 0
    assert "(revoked)" in capsys.readouterr().out


def test_named_tokens_roles_and_expiry(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(*words: str) -> int:
        return main(["user", *words, "--config", str(config)])

    assert say("add", "ann") == 0
    assert say("add", "ann", "--token", "cluster", "--days", "30") == 0
    assert say("add", "ann", "--token", "late", "--days", "-1") == 1
    assert "[parameter_invalid]" in capsys.readouterr().err
    assert say("role", "ann", "administrator") == 0
    assert say("revoke", "ann", "--token", "default") == 0
    capsys.readouterr()
    assert say("list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "ann  administrator"
    assert second.startswith("    cluster: read submit, valid, until 20")
