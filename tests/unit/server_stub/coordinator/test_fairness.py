"""Fair shares between labs: proportional, without starvation, stable."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from server_stub.coordinator.fairness import LabShare, choose, step

GRANT_S = 3600.0


def share(name: str, **changed: object) -> LabShare:
    first = LabShare(name, 1.0, 0, 10**6, 0, 0, 10**6)
    return replace(first, **changed)  # type: ignore[arg-type]


def test_nobody_wants_a_card() -> None:
    assert choose([], 0, 1, GRANT_S) is None
    assert choose([share("a", cards_wanted=0)], 0, 1, GRANT_S) is None
    assert choose([share("a", cards_wanted=5, cards_held=5)], 0, 1, GRANT_S) is None
    assert choose([share("a", max_cards=0)], 0, 1, GRANT_S) is None
    assert choose([share("a", min_memory_bytes=2)], 0, 1, GRANT_S) is None


def test_a_card_stays_where_its_blobs_are_within_one_grant() -> None:
    near = [share("a"), share("b", served=step(share("b"), GRANT_S))]
    chosen = choose(near, 0, 1, GRANT_S, "b")
    assert chosen is not None
    assert chosen.lab.lab == "b"
    far = [share("a"), share("b", served=step(share("b"), GRANT_S) + 1)]
    chosen = choose(far, 0, 1, GRANT_S, "b")
    assert chosen is not None
    assert chosen.lab.lab == "a"


def run(
    weights: list[float], turns: list[tuple[list[bool], int | None]]
) -> list[tuple[int, list[bool]]]:
    """Who was chosen in each turn, among those that wanted a card then."""
    labs = [share(f"lab-{number}", weight=weight) for number, weight in enumerate(weights)]
    level, chosen = 0, []
    for wanting, last in turns:
        offered = [
            replace(lab, cards_wanted=10**6 if wants else 0)
            for lab, wants in zip(labs, wanting, strict=True)
        ]
        found = choose(offered, level, 1, GRANT_S, None if last is None else f"lab-{last}")
        if found is None:
            continue
        number = int(found.lab.lab.removeprefix("lab-"))
        labs[number] = replace(labs[number], served=found.served)
        level = max(level, found.level)
        chosen.append((number, wanting))
    return chosen


WEIGHTS = st.lists(st.floats(0.25, 8.0), min_size=2, max_size=4)


@settings(max_examples=100, deadline=None, database=None)
@given(weights=WEIGHTS, turns=st.integers(20, 200), data=st.data())
def test_shares_follow_weights(weights: list[float], turns: int, data: st.DataObject) -> None:
    everyone = [True] * len(weights)
    last = st.one_of(st.none(), st.integers(0, len(weights) - 1))
    sequence = [(everyone, data.draw(last)) for _ in range(turns)]
    counts = Counter(number for number, _ in run(weights, sequence))
    assert sum(counts.values()) == turns
    # What each got per weight differs by at most one grant of each, and one more for stickiness.
    per_weight = [counts[number] / weight for number, weight in enumerate(weights)]
    assert max(per_weight) - min(per_weight) <= 3 / min(weights) + 1e-6


@settings(max_examples=100, deadline=None, database=None)
@given(weights=WEIGHTS, data=st.data())
def test_nobody_starves_however_the_others_come_and_go(
    weights: list[float], data: st.DataObject
) -> None:
    count = len(weights)
    turn = st.tuples(
        st.lists(st.booleans(), min_size=count, max_size=count),
        st.one_of(st.none(), st.integers(0, count - 1)),
    )
    turns = data.draw(st.lists(turn, min_size=10, max_size=120))
    # Lab 0 wants a card in every turn.
    chosen = run(weights, [([True, *wanting[1:]], last) for wanting, last in turns])
    bound = 2 + sum(3 * max(1.0, weight / weights[0]) + 2 for weight in weights[1:])
    waited = 0
    for number, _ in chosen:
        waited = 0 if number == 0 else waited + 1
        assert waited <= bound


def test_being_away_or_alone_earns_and_costs_nothing() -> None:
    alone = [([True, False], None)] * 50
    both = [([True, True], None)] * 10
    counts = Counter(number for number, _ in run([1.0, 1.0], alone + both)[50:])
    assert counts == {0: 5, 1: 5}
    back = [([False, True], None)] * 50
    counts = Counter(number for number, _ in run([1.0, 1.0], alone + back + both)[100:])
    assert abs(counts[0] - counts[1]) <= 2, "one grant of each"
