"""Stretches open, grow and close; bytes are counted once."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from app.agent.bookkeeper import Bookkeeper, Now, Works
from app.agent.energy import EnergyMeter
from app.agent.history import History
from gpugoblin.errors import AgentError

T0 = 20_000 * 86_400.0


def books(tmp_path: Path, failed: list[AgentError] | None = None) -> Bookkeeper:
    meters = {0: EnergyMeter(True, rapl=lambda: None), 1: EnergyMeter(False)}
    heard = failed if failed is not None else []
    return Bookkeeper(History(tmp_path / "h.db"), meters, heard.append)


def at(second: float, received: int = 0, sent: int = 0) -> Now:
    return Now(T0 + second, UTC, received, sent, per_kwh=0.5)


IDLE = {0: Works(""), 1: Works("")}


def test_a_stretch_from_its_first_to_its_last_moment(tmp_path: Path) -> None:
    kept = books(tmp_path)
    kept.look(IDLE, at(0))
    assert kept.next_s() is None
    kept.look({0: Works("lab_a"), 1: Works("")}, at(10))
    assert kept.next_s() == T0 + 70
    kept.task(0, 4.0)
    kept.task(1, 4.0)  # a card without a stretch: nothing to count on
    kept.look({0: Works("lab_a", 55.0), 1: Works("lab_b", power_w=360.0)}, at(20, 100, 10))
    kept.look({0: Works("lab_a", 50.0), 1: Works("lab_b", power_w=360.0)}, at(80, 300, 10))
    kept.look({0: Works("lab_c"), 1: Works("", power_w=360.0)}, at(90, 301, 10))
    kept.close(at(95, 301, 10))
    history = History(tmp_path / "h.db")
    rows = {(row.card, row.lab): row for row in history.rows(0, 1e11, 10)[0]}
    first = rows[0, "lab_a"]
    assert (first.begin_s, first.end_s, first.tasks, first.busy_s) == (T0 + 10, T0 + 90, 1, 4.0)
    assert (first.peak_c, first.energy_source, first.bytes_received) == (55.0, "estimate", 201)
    second = rows[1, "lab_b"]
    assert (second.energy_wh, second.energy_source) == (7.0, "nvml")
    assert (second.cost, second.bytes_received) == (0.0035, 100)
    assert rows[0, "lab_c"].end_s == T0 + 95
    assert history.traffic(T0 + 95, UTC) == (311, 311)
    history.close()


def test_todays_bytes_include_what_is_not_written_yet(tmp_path: Path) -> None:
    kept = books(tmp_path)
    assert kept.traffic(at(0, 50, 5)) == (55, 55)
    kept.close(at(1, 50, 5))


def test_a_history_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    failed: list[AgentError] = []
    kept = books(tmp_path, failed)
    kept.history._database.execute("pragma query_only = 1")
    for second in (10, 20, 30):
        kept.look({0: Works("lab_a" if second != 20 else ""), 1: Works("")}, at(second))
    assert [error.code for error in failed] == ["state_unwritable"]
    kept.history._database.execute("pragma query_only = 0")
    kept.look(IDLE, at(40, 7))
    kept.close(at(41, 7))
    history = History(tmp_path / "h.db")
    assert history.traffic(T0, UTC) == (7, 7)
    history.close()
