"""How much a fresh engine is asked, and what is remembered of it."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from app.agent.answers import cases
from app.agent.card_proof import CardProof
from app.agent.card_record import CardRecords, record_key
from app.agent.own_task import go_on
from app.agent.settings import read_settings
from gpugoblin.errors import EngineError
from tests.helpers.stub_engine import READY, StubEngine

KEY = record_key(READY)


def stub() -> StubEngine:
    engine = StubEngine(read_settings(None), deque())
    engine.wait_ready()
    return engine


def asked(proof: CardProof) -> int:
    engine = stub()
    proof(engine, go_on)  # type: ignore[arg-type]
    engine.close()
    return engine.proofs


def test_everything_once_and_then_the_first(tmp_path: Path) -> None:
    assert asked(CardProof("gpu", CardRecords(tmp_path))) == len(cases())
    proof = CardProof("gpu", CardRecords(tmp_path))
    assert [asked(proof), asked(proof)] == [1, 1]
    assert CardRecords(tmp_path).known("gpu", KEY).proven_s > 0


def test_after_a_lie_everything_again_and_the_fault_is_known(tmp_path: Path) -> None:
    records = CardRecords(tmp_path)
    proof = CardProof("gpu", records)
    asked(proof)
    engine = stub()
    engine.is_lying = True
    with pytest.raises(EngineError) as raised:
        proof(engine, go_on)  # type: ignore[arg-type]
    engine.close()
    assert raised.value.code == "card_lied"
    known = CardRecords(tmp_path).known("gpu", KEY)
    assert known.proven_s == 0
    assert "stub-1" in known.fault
    assert "overclocking" in known.fix
    assert asked(proof) == len(cases())
    assert CardRecords(tmp_path).known("gpu", KEY).fault == ""


def test_an_engine_that_dies_says_nothing_about_its_answers(tmp_path: Path) -> None:
    records = CardRecords(tmp_path)
    engine = stub()

    def look() -> None:
        engine.end(EngineError("engine_died", status=9, doing="dying", stderr="none"))

    with pytest.raises(EngineError):
        CardProof("gpu", records)(engine, look)  # type: ignore[arg-type]
    engine.close()
    assert records.of("gpu").fault == ""
