"""What others use: ours is taken off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.probes import load
from app.probes.load import LoadProbe


def test_ours_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = iter([(10.0, 100.0), (15.0, 110.0), (21.0, 120.0), (25.0, 130.0)])
    spent = iter([1.0, 4.0, 5.0])
    pids: list[int] = [7]
    monkeypatch.setattr(load, "_whole", lambda: next(whole))
    monkeypatch.setattr(load, "_spent_s", lambda pid: next(spent))
    probe = LoadProbe(tmp_path, lambda: pids)
    assert probe.look().processor_percent == 0.0
    assert probe.look().processor_percent == 20.0
    assert probe.look().processor_percent == 50.0
    pids.clear()  # an engine ended, and what it did last is not known: nothing new is said
    assert probe.look().processor_percent == 50.0


def test_real_figures(tmp_path: Path) -> None:
    facts: Any = LoadProbe(tmp_path, lambda: [1, 99_999_999]).look()
    assert facts.memory_free_bytes > 0
    assert facts.disk_free_bytes > 0
