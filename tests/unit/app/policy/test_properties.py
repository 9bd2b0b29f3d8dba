"""Properties of the whole policy: worse facts never ease, nothing flaps, the owner's pause wins.

And situations by the hundreds, whose one line is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.view import reason_items
from app.control import words
from app.control.messages import CardItem
from app.policy.combine import CardRuling, Memory, decide
from app.policy.intent import Intent
from app.policy.machine import PolicyMachine
from app.policy.rule import Ruling
from app.policy.rules import RULES
from app.policy.snapshot import (
    ForeignUse,
    IdleFacts,
    LoadFacts,
    NetworkFacts,
    PlayFacts,
    PowerFacts,
    Sensor,
    Snapshot,
)
from gpugoblin.units import GIB
from tests.helpers.situations import CPU, FREE, GPU, NOW_S, choices, facts, rulings

SENSORS = st.floats(20, 110).map(lambda c: (Sensor("core", "core", c),))
GPUS = st.builds(
    lambda sensors, foreign, used: replace(
        GPU, sensors=sensors, foreign=foreign, memory_used_bytes=used
    ),
    st.none() | SENSORS,
    st.none() | st.sampled_from([(), (ForeignUse("x", GIB),), (ForeignUse("x", 0, 50.0),)]),
    st.none() | st.integers(0, 12 * GIB),
)
SNAPSHOTS = st.builds(
    lambda now, gpu, idle, play, power, network, load, asleep: replace(
        FREE, now_s=NOW_S + now, monotonic_s=NOW_S + now, cards=(CPU, gpu), idle=idle, play=play,
        power=power, network=network, load=load, is_asleep=asleep,
    ),
    st.floats(0, 7 * 86_400),
    GPUS,
    st.none() | st.builds(IdleFacts, st.floats(0, NOW_S + 8 * 86_400), st.just("s"), st.booleans()),
    st.none() | st.builds(PlayFacts, st.sampled_from([(), ("g",)]), st.sampled_from(["", "f"])),
    st.none() | st.builds(PowerFacts, st.booleans()),
    st.none() | st.builds(NetworkFacts, st.sampled_from(["no", "yes", "guess_yes", "untold"])),
    st.none() | st.builds(LoadFacts, st.floats(0, 100), st.integers(0, 2**34), st.just(2**40)),
    st.booleans(),
)  # fmt: skip

WORSE: dict[str, Callable[[Snapshot], Snapshot]] = {
    "somebody comes": lambda s: replace(s, idle=IdleFacts(s.now_s, "x", is_active=True)),
    "a game starts": lambda s: replace(s, play=PlayFacts(games=("g",))),
    "unplugged": lambda s: replace(s, power=PowerFacts(on_battery=True)),
    "metered": lambda s: replace(s, network=NetworkFacts("yes")),
    "hotter": lambda s: replace(
        s, cards=(s.cards[0], replace(s.cards[1], sensors=(Sensor("core", "core", 120.0),)))
    ),
    "a job on the card": lambda s: replace(
        s, cards=(s.cards[0], replace(s.cards[1], foreign=(ForeignUse("j", 9 * GIB),)))
    ),
    "sleep": lambda s: replace(s, is_asleep=True),
    "no memory": lambda s: replace(s, load=LoadFacts(100.0, 0, 0)),
    **{
        f"{name} unknown": lambda s, name=name: replace(s, **{name: None})  # type: ignore[misc]
        for name in ("idle", "play", "power", "network", "load")
    },
}
PROFILES = ["away", "nights", "always"]


@pytest.mark.parametrize("worse", WORSE)
@settings(max_examples=25, deadline=None)
@given(SNAPSHOTS, st.sampled_from(PROFILES))
def test_worse_facts_never_ease(worse: str, snapshot: Snapshot, profile: str) -> None:
    before = rulings(snapshot, profile=profile)
    after = rulings(WORSE[worse](snapshot), profile=profile)
    for old, new in zip(before, after, strict=True):
        assert new.ruling >= old.ruling


@settings(max_examples=60, deadline=None)
@given(SNAPSHOTS, st.sampled_from(["pause", "stop"]))
def test_the_owners_word_always_wins(snapshot: Snapshot, kind: Any) -> None:
    for each in rulings(snapshot, {0: Intent(kind), 1: Intent(kind)}):
        assert each.ruling is Ruling.STOP
        assert each.reasons[0].code.startswith("owner_")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 40), SNAPSHOTS), min_size=2, max_size=30))
def test_a_cause_that_needs_calm_never_flaps(steps: list[tuple[float, Snapshot]]) -> None:
    """Between the last moment of a cause and the next RUN lies the time that it must be gone."""
    given_choices, memory = choices(calm__after_s=15), MappingProxyType({})
    second, called_s = 0.0, dict[tuple[int, str], float]()
    kept: Memory = memory
    for wait_s, snapshot in steps:
        second += wait_s
        now = replace(snapshot, monotonic_s=second)
        found, kept = decide(now, RULES, {}, given_choices, kept)
        calm = {rule.name for rule in RULES if rule.settle == "calm.after_s"}
        for card in found:
            for rule in calm:
                key = (card.card, rule)
                held = kept.get(key)
                if held is not None:
                    called_s[key] = held.called_s
                elif key in called_s:
                    assert second - called_s.pop(key) >= 15


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 90), SNAPSHOTS), min_size=1, max_size=20))
def test_a_recorded_log_replays_to_the_same_rulings(log: list[tuple[float, Snapshot]]) -> None:
    def replay() -> list[tuple[CardRuling, ...]]:
        machine, second = PolicyMachine(), 0.0
        found = []
        for wait_s, snapshot in log:
            second += wait_s
            now = replace(snapshot, monotonic_s=second)
            found.append(machine.rule(now, RULES, {}, choices()))
        return found

    assert replay() == replay()


@settings(max_examples=60, deadline=None)
@given(SNAPSHOTS, st.floats(-1e7, 1e7))
def test_a_clock_that_jumps_lends_nothing_that_is_unknown(snapshot: Snapshot, jump: float) -> None:
    machine = PolicyMachine()
    machine.rule(replace(snapshot, monotonic_s=0.0), RULES, {}, choices())
    jumped = replace(snapshot, now_s=max(0.0, snapshot.now_s + jump), monotonic_s=1.0)
    machine.rule(jumped, RULES, {}, choices())
    unknown = None in (snapshot.idle, snapshot.play, snapshot.power, snapshot.network)
    if unknown or snapshot.is_asleep:
        assert all(each.ruling is Ruling.STOP for each in machine.current.values())


@dataclass(frozen=True)
class Cause:
    """One thing that may be the case, and what its words must say."""

    change: Callable[[Snapshot], Snapshot]
    says: tuple[str, ...]
    ruling: Ruling = Ruling.STOP
    cards: tuple[int, ...] = (0, 1)
    values: tuple[tuple[str, Any], ...] = ()


def on(**changes: Any) -> Callable[[Snapshot], Snapshot]:
    return lambda snapshot: replace(snapshot, **changes)


def gpu(**changes: Any) -> Callable[[Snapshot], Snapshot]:
    return lambda s: replace(s, cards=(s.cards[0], replace(s.cards[1], **changes)))


CAUSES: dict[str, Cause] = {
    "used": Cause(on(idle=IdleFacts(NOW_S, "mutter", is_active=True)), ("in use (mutter)",)),
    "used a minute ago": Cause(on(idle=IdleFacts(NOW_S - 60, "x11")), ("in use (x11)", "12:04")),
    "film": Cause(on(idle=IdleFacts(0, "x", awake_for="Player")), ("Player keeps the screen",)),
    "idle unknown": Cause(on(idle=None), ("not known whether the machine is in use",)),
    "game": Cause(on(play=PlayFacts(games=("Portal",))), ("a game runs (Portal)", "it ends")),
    "full screen": Cause(on(play=PlayFacts(full_screen="vlc")), ("vlc fills the screen",)),
    "listed": Cause(on(play=PlayFacts(listed=("blender",))), ("blender runs",)),
    "play unknown": Cause(on(play=None), ("not known whether a game runs",)),
    "battery": Cause(on(power=PowerFacts(on_battery=True)), ("on battery", "plugged in")),
    "ups": Cause(on(power=PowerFacts(on_ups=True)), ("emergency supply", "mains are back")),
    "saver": Cause(on(power=PowerFacts(is_saving=True)), ("told to save power",)),
    "metered": Cause(on(network=NetworkFacts("guess_yes")), ("metered one",)),
    "network unknown": Cause(on(network=None), ("not known what the network costs",)),
    "memory": Cause(on(load=LoadFacts(0, 1, 2**40)), ("1 GiB of memory is free",)),
    "disk": Cause(on(load=LoadFacts(0, 2**40, 1)), ("1 GiB of disk is free",)),
    "busy": Cause(on(load=LoadFacts(80, 2**40, 2**40)), ("50 % of the processor",),
                  Ruling.FREEZE, (0,)),
    "sleep": Cause(on(is_asleep=True), ("goes to sleep", "it wakes")),
    "job": Cause(gpu(foreign=(ForeignUse("train.py", GIB),)), ("train.py uses the card",),
                 cards=(1,)),
    "lender": Cause(gpu(foreign=(ForeignUse("process 7", 0, is_lender=True),)),
                    ("another gpugoblin",), cards=(1,)),
    "hot": Cause(gpu(sensors=(Sensor("core", "core", 90.0),)), ("limit of 83 °C", "76 °C"),
                 cards=(1,)),
    "lie": Cause(gpu(sensors=(Sensor("core", "core", 255.0),)), ("255.0 °C", "cannot be"),
                 cards=(1,)),
    "gone": Cause(gpu(trouble="it was unplugged"), ("it was unplugged",), cards=(1,)),
    "hours": Cause(on(), ("outside your hours", "22:00"),
                   values=(("profile", "nights"),)),
    "dear": Cause(on(), ("energy is dear now", "13:00"),
                  values=(("price.dear_hours", ["thu 11:00-13:00"]),)),
    "duty": Cause(on(), ("50 % of its time",), Ruling.THROTTLE,
                  values=(("duty.percent", 50),)),
}  # fmt: skip


def combinations() -> Iterator[tuple[str, ...]]:
    yield ()
    for size in (1, 2):
        yield from itertools.combinations(CAUSES, size)


SITUATIONS = list(combinations())


def item(ruling: CardRuling) -> CardItem:
    return CardItem(
        "card", ruling.card, "cpu", ruling.ruling.name, reason_items(ruling), ruling.until_s,
        ruling.is_draining, "absent", "stopped", "", "", 0, 0, 0, 0.0,
    )  # type: ignore[arg-type]  # fmt: skip


def same_fact(first: str, second: str) -> bool:
    """Two causes that set the same fact: the later one alone holds."""
    groups = (
        {"used", "used a minute ago", "film", "idle unknown"},
        {"game", "full screen", "listed", "play unknown"}, {"battery", "ups", "saver"},
        {"metered", "network unknown"}, {"memory", "disk", "busy"}, {"hot", "lie"},
        {"job", "lender"},
    )  # fmt: skip
    return any({first, second} <= group for group in groups)


def test_there_are_enough_situations() -> None:
    assert len(SITUATIONS) * 2 >= 400


@pytest.mark.parametrize("names", SITUATIONS, ids="+".join)
def test_the_one_line_is_right_in_every_situation(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "datetime", _InUtc)
    snapshot, values = facts(), dict[str, Any]()
    for name in names:
        snapshot = CAUSES[name].change(snapshot)
        values |= dict(CAUSES[name].values)
    holding = [n for n in names if not any(same_fact(n, m) for m in names[names.index(n) + 1 :])]
    given_values = {name.replace(".", "__"): value for name, value in values.items()}
    for ruling in rulings(snapshot, **given_values):
        causes = [CAUSES[name] for name in holding if ruling.card in CAUSES[name].cards]
        expected = max((cause.ruling for cause in causes), default=Ruling.RUN)
        assert ruling.ruling is expected
        line = words.why(item(ruling), NOW_S)
        assert "\n" not in line
        assert "{" not in line
        assert line.endswith(".")
        doing = {"RUN": "lending,", "THROTTLE": "lending slowly,", "FREEZE": "frozen,",
                 "STOP": "not lending,"}  # fmt: skip
        assert line.startswith(f"Card {ruling.card}: {doing[ruling.ruling.name]}")
        for cause in causes:
            for text in cause.says:
                assert text in line
        if not causes:
            assert "nobody has used the machine since" in line
        for name in set(CAUSES) - set(holding):
            assert CAUSES[name].says[0] not in line


class _InUtc:
    """Moments as a clock in Greenwich shows them, wherever the test runs."""

    @staticmethod
    def fromtimestamp(moment_s: float) -> Any:
        from datetime import UTC, datetime

        return datetime.fromtimestamp(moment_s, UTC)
