"""Tokens on the command line."""

from __future__ import annotations

import os
import pwd
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


def test_revoking_says_what_it_means_for_a_user_of_this_machine(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = pwd.getpwuid(os.getuid()).pw_name
    for name, is_here in ((here, True), ("no-such-user", False)):
        assert main(["user", "add", name, "--config", str(config)]) == 0
        capsys.readouterr()
        assert main(["user", "revoke", name, "--config", str(config)]) == 0
        assert ("Unix socket" in capsys.readouterr().out) == is_here
    assert main(["user", "revoke", "uid-3999999", "--config", str(config)]) == 0
    assert "uid-3999999 of this machine is refused" in capsys.readouterr().out
