"""Health, readiness and figures: counts alone, and the truth when the database is away."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import watch
from server_stub.coordinator.store import SqliteStore, create
from tests.helpers.coordinator import Desk
from tests.helpers.coordinator_front import Front

LINE = re.compile(
    r"# (HELP|TYPE) gpugoblin_[a-z_]+ .+"
    r'|gpugoblin_[a-z_]+(\{status="\dxx"\})? [0-9.e+-]+'
)


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    create(tmp_path / "db")
    opened = SqliteStore(tmp_path / "db")
    yield Front(opened)
    opened.close()


def values(front: Front) -> dict[str, float]:
    reply = front.send("GET", "/metrics")
    assert reply.status == 200
    lines = reply.body.decode().splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def away(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    future: Future[Any] = Future()
    future.set_exception(CoordinatorError("coordinator_database_full"))
    monkeypatch.setattr(front.store, "submit", lambda work: future)


def test_figures_follow_what_is_done(front: Front) -> None:
    def work(tx: Any) -> None:
        desk = Desk(tx)
        desk.lab("secret-lab")
        desk.device("secret-ann").grant()

    before = values(front)
    assert (before["gpugoblin_devices"], before["gpugoblin_database_up"]) == (0, 1)
    front.store.submit(work).result(10)
    assert values(front)["gpugoblin_devices"] == 0, "kept for some seconds"
    front.clock.now_s += watch.KEPT_S + 1
    found = values(front)
    assert (found["gpugoblin_devices"], found["gpugoblin_labs"]) == (1, 1)
    assert found['gpugoblin_answers_total{status="2xx"}'] == 2
    assert front.send("GET", "/nowhere").status == 404
    assert values(front)['gpugoblin_answers_total{status="4xx"}'] == 1
    assert b"secret" not in front.send("GET", "/metrics").body


def test_a_database_that_is_away_makes_a_server_unready_but_not_unhealthy(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert front.send("GET", "/ready").status == 200
    with monkeypatch.context() as patch:
        away(front, patch)
        assert front.send("GET", "/ready").status == 200, "kept for some seconds"
        front.clock.now_s += watch.KEPT_S + 1
        assert front.send("GET", "/ready").status == 503
        assert front.send("GET", "/health").status == 200
        found = values(front)
        assert found["gpugoblin_database_up"] == 0
        assert "gpugoblin_devices" not in found
    front.clock.now_s += watch.KEPT_S + 1
    assert front.send("GET", "/ready").status == 200


def test_a_database_that_does_not_answer(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PATIENCE_S", 0.05)
    monkeypatch.setattr(front.store, "submit", lambda work: Future())
    assert front.send("GET", "/ready").status == 503


def test_text_without_answers() -> None:
    assert "gpugoblin_database_up 0\n" in watch.text_of(None, Counter())
