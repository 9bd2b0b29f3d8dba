"""Other programs on a card."""

from __future__ import annotations

from dataclasses import replace

from app.policy.rule import Held, Reason, Ruling, Verdict
from app.policy.rules.foreign import CARD_MEMORY, FOREIGN
from app.policy.snapshot import CardFacts, ForeignUse
from gpugoblin.units import GIB, MIB
from tests.helpers.situations import CPU, GPU, code, judge


def used(*uses: ForeignUse) -> CardFacts:
    return replace(GPU, foreign=uses)


def test_memory_or_time_make_a_use() -> None:
    assert judge(FOREIGN, card=used(ForeignUse("x", 299 * MIB, 9.0))) is None
    assert code(judge(FOREIGN, card=used(ForeignUse("x", 300 * MIB)))) == "card_used"
    assert code(judge(FOREIGN, card=used(ForeignUse("x", 0, 10.0)))) == "card_used"


def test_the_owner_may_let_programs_be_and_turn_it_off() -> None:
    train = used(ForeignUse("train", GIB))
    assert judge(FOREIGN, card=train, foreign__ignore=["train"]) is None
    assert judge(FOREIGN, card=train, foreign__stop=False) is None


def test_another_lender_is_named_as_such() -> None:
    other = used(ForeignUse("process 7 of user 1001", GIB, is_lender=True))
    assert code(judge(FOREIGN, card=other)) == "lent_by_another"


def test_unknown_stops_a_card_and_the_processor_has_no_such_rule() -> None:
    assert code(judge(FOREIGN, card=replace(GPU, foreign=None))) == "foreign_unknown"
    assert judge(FOREIGN, card=replace(CPU, foreign=None)) is None


def test_the_share_of_the_memory_must_be_free() -> None:
    def needs(percent: float, held: Held | None = None) -> str:
        card = replace(GPU, memory_used_bytes=int(12 * GIB * percent / 100))
        return code(judge(CARD_MEMORY, card=card, held=held))

    held = Held(Verdict(Ruling.STOP, Reason("card_memory_short")), 0.0, 0.0)
    assert needs(31.0) == ""
    assert needs(32.5) == "card_memory_short"
    assert needs(30.5, held) == "card_memory_short"
    assert needs(29.5, held) == ""
