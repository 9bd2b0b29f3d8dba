"""The history: what is kept, for how long, and what a full disk does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from app.agent.history import KEPT_DAYS, History, Stretch
from gpugoblin.errors import AgentError

DAY_S = 86_400.0
T0 = 20_000 * DAY_S


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "history.db")
    yield made
    made.close()


def stretch(begin_s: float, card: int = 0, **fields: object) -> Stretch:
    values = {"tasks": 3, "energy_wh": 2.0, "cost": 0.5, "peak_c": 60.0, **fields}
    return Stretch(card, "lab_a", begin_s, begin_s + 60, "EUR", **values)  # type: ignore[arg-type]


def test_a_stretch_is_written_again_as_it_grows(history: History) -> None:
    history.keep([stretch(T0)], "2024-10-04", 10, 1)
    history.keep([stretch(T0, tasks=9)], "2024-10-04", 20, 2)
    rows, is_all = history.rows(0, 1e11, 10)
    assert (len(rows), rows[0].tasks, is_all) == (1, 9, True)
    assert history.traffic(T0, UTC) == (33, 33)
    assert history.energy_wh(T0) == 2.0
    assert history.energy_wh(T0 + 1) == 0.0


def test_days_are_sums(history: History) -> None:
    history.keep([stretch(T0), stretch(T0 + 60, peak_c=70.0, energy_source="nvml"),
                  stretch(T0 + 60, 1), stretch(T0 + DAY_S)], "x", 0, 0)  # fmt: skip
    days, is_all = history.days(0, 1e11, 10, UTC)
    assert is_all
    assert [(day.card, day.tasks, day.peak_c) for day in days] == [
        (0, 6, 70.0), (1, 3, 60.0), (0, 3, 60.0)
    ]  # fmt: skip
    assert days[0].energy_source == "estimate"
    assert days[0].end_s - days[0].begin_s == DAY_S
    assert history.days(0, 1e11, 2, UTC)[1] is False


def test_a_month_is_not_a_day(history: History) -> None:
    history.keep([], "2024-10-01", 5, 0)
    history.keep([], "2024-10-04", 7, 0)
    history.keep([], "2024-09-30", 100, 0)
    assert history.traffic(T0, UTC) == (7, 12)


def test_what_is_old_is_forgotten(history: History) -> None:
    history.keep([stretch(T0 - (KEPT_DAYS + 1) * DAY_S), stretch(T0)], "2020-01-01", 5, 5)
    history.prune(T0, UTC)
    assert [row.begin_s for row in history.rows(0, 1e11, 10)[0]] == [T0]


def test_pages(history: History) -> None:
    history.keep([stretch(T0 + n) for n in range(5)], "x", 0, 0)
    rows, is_all = history.rows(T0 + 1, T0 + 4, 2)
    assert ([row.begin_s for row in rows], is_all) == ([T0 + 1, T0 + 2], False)


def test_a_file_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "history.db").write_bytes(b"no database" * 100)
    with pytest.raises(AgentError, match=r"history\.db") as caught:
        History(tmp_path / "history.db")
    assert caught.value.code == "state_damaged"


def test_a_disk_that_is_full_is_an_error_and_nothing_is_half_written(history: History) -> None:
    history._database.execute("pragma max_page_count = 8")
    many = [stretch(T0 + n) for n in range(5000)]
    with pytest.raises(AgentError) as caught:
        history.keep(many, "2024-10-04", 1, 1)
    assert caught.value.code == "state_unwritable"
    assert history.rows(0, 1e11, 10)[0] == ()
    assert history.traffic(T0, UTC) == (0, 0)
