"""The engine that only builds its walls."""

from __future__ import annotations

import json

import pytest

from app.sandbox.spec import Level, Runtime

from .conftest import launched


@pytest.mark.parametrize("level", ["full", "reduced"])
def test_it_reports_its_walls_and_ends_with_its_channel(runtime: Runtime, level: Level) -> None:
    with launched(runtime, level=level) as (process, channel):
        report = json.loads(channel.recv(4096))
        assert report["level"] == level
        assert report["seccomp_stage"] == 2
        assert report["self_test"] is True
        assert report["landlock_abi"] >= 1
        channel.close()
        assert process.wait(10) == 0
