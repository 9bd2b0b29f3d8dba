"""The owner's word: kept, once per intent, for the cards that were named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agent.owner import Owner
from app.agent.state import State
from app.policy.combine import CardRuling
from app.policy.intent import Intent
from app.policy.rule import Ruling
from app.policy.snapshot import LoadFacts
from gpugoblin.errors import AgentError
from tests.helpers.situations import NOW_S, choices, facts


def ruled(owner: Owner, second: float) -> tuple[CardRuling, ...]:
    return owner.rule(facts(now_s=NOW_S + second, monotonic_s=second))


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    state = State(tmp_path / "state")
    yield Owner(state, (0, 1), state.intents(), choices())
    state.close()


def test_an_intent_is_kept_and_counts_once(owner: Owner) -> None:
    assert owner.wants(Intent("pause", "i1"), [1])
    assert not owner.wants(Intent("resume", "i1"), [1])
    assert owner.state.intents() == {1: Intent("pause", "i1")}


def test_no_card_means_all_cards(owner: Owner) -> None:
    owner.wants(Intent("stop", "i1"), [])
    assert set(owner.intents) == {0, 1}
    assert owner.gives_up_grants(0)


def test_an_unknown_card_changes_nothing(owner: Owner) -> None:
    with pytest.raises(AgentError, match=r"no card 7; it has \[0, 1\]") as caught:
        owner.wants(Intent("pause", "i1"), [0, 7])
    assert caught.value.code == "card_unknown"
    assert owner.intents == {}


def test_rulings_change_with_intents_and_time(owner: Owner) -> None:
    assert [each.ruling for each in ruled(owner, 0.0)] == [Ruling.RUN, Ruling.RUN]
    assert ruled(owner, 1.0) == ()
    owner.wants(Intent("pause", "i1", until_s=NOW_S + 10.0), [0])
    changed = ruled(owner, 2.0)
    assert [(each.card, each.ruling) for each in changed] == [(0, Ruling.STOP)]
    assert owner.next_change_s(facts()) == NOW_S + 10.0
    events = owner.events(changed)
    assert [(each.card, each.ruling, each.gives_up_grants) for each in events] == [
        (0, "STOP", False)
    ]
    assert owner.events(changed) == []
    assert [each.ruling for each in ruled(owner, 10.0)] == [Ruling.RUN]
    assert owner.next_change_s(facts()) is None


def test_a_freeze_will_change(owner: Owner) -> None:
    owner.rule(facts(load=LoadFacts(90.0, 2**40, 2**40)))
    assert owner.next_change_s(facts()) == NOW_S + 30.0


def test_a_resume_is_told_again_even_where_it_holds(owner: Owner) -> None:
    owner.events(ruled(owner, 0.0))
    owner.wants(Intent("resume", "i1"), [1])
    changed = ruled(owner, 1.0)
    assert [(each.card, each.ruling) for each in changed] == [(1, Ruling.RUN)]
    assert [each.card for each in owner.events(changed)] == [1]


def test_a_drained_finish_is_kept(owner: Owner) -> None:
    owner.drained(0)
    assert owner.intents == {}
    owner.wants(Intent("finish", "i1"), [0])
    owner.drained(0)
    assert owner.state.intents()[0].drained
    assert ruled(owner, 0.0)[0].ruling == Ruling.STOP
