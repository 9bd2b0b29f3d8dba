"""The data of a launch: what holds when nothing is said."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from app.sandbox.spec import EngineLaunch, Runtime

RUNTIME = Runtime(Path("/r"), Path("/r/bin/python"), Path("/r/app"), "cpu-1")


def _launch() -> EngineLaunch:
    return EngineLaunch(RUNTIME, 3, 4, 5, 4096, 4096, 1, 2**20)


def test_all_walls_are_the_default() -> None:
    assert _launch().level == "full"
    assert _launch().backend == "cpu"


def test_a_launch_cannot_be_changed_after_it_was_checked() -> None:
    with pytest.raises(FrozenInstanceError):
        _launch().level = "none"  # type: ignore[misc]


def test_variables_are_not_shared_between_launches() -> None:
    _launch().environment["A"] = "1"
    assert _launch().environment == {}
