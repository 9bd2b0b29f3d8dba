"""Validators on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_stub.node.commands import main

__all__: list[str] = []


def test_they_are_added_listed_and_removed(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(*words: str, status: int = 0) -> str:
        assert main(["validator", *words, "--config", str(config)]) == status
        told = capsys.readouterr()
        return told.out + told.err

    assert say("list") == ""
    assert say("add", "uni", "--key", "ab" * 32) == f"uni  {'ab' * 8}...  a partner's\n"
    words = ("add", "uni", "--key", "ab" * 32, "--owner", "owner_a", "--bucket", "net", "--ours")
    assert say(*words).endswith("the lab's own\n")
    assert "[parameter_invalid]" in say("add", "other", "--key", "ab" * 32, status=1)
    assert say("remove", "uni") == ""
    assert "[validator_unknown]" in say("remove", "uni", status=1)
