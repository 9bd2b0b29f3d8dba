"""Recordings hold no names, are read with bounds, and a replay decides as an agent would."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from app.policy.recording import (
    BEGIN_S,
    FORMAT,
    MOST_LINE_BYTES,
    NEVER_S,
    Act,
    Begin,
    Decision,
    End,
    Facts,
    encode,
    facts_of,
    read,
    replay,
)
from app.policy.snapshot import ForeignUse, IdleFacts, PlayFacts, Sensor
from gpugoblin.errors import AgentError
from tests.helpers.hour import DECIDED, PLACE, decided, false_stops, given_back_s
from tests.helpers.situations import CPU, FREE, GPU, NOW_S, choices, facts


def line(at_s: float, **changes: Any) -> Facts:
    """Facts of the free machine, recorded from its begin on."""
    return replace_at(facts_of(facts(**changes), NOW_S), at_s)


def replace_at(told: Facts, at_s: float) -> Facts:
    return Facts(**{**{name: getattr(told, name) for name in Facts.__struct_fields__},
                    "at_s": at_s})  # fmt: skip


def recorded(*lines: Any, end_s: float = 3600.0) -> Any:
    return read(map(encode, (Begin(FORMAT), *lines, End(end_s))))


def test_no_name_is_in_a_line() -> None:
    names = "Quake III", "/home/ann/film.mkv", "train.py", "GPU-9f1b", "Ann's own sensor"
    quake, film, train, card, sensor = names
    snapshot = facts(
        idle=IdleFacts(NOW_S - 60.0, f"session of {film}", awake_for=film, locked_since_s=NOW_S),
        play=PlayFacts((quake, quake), film, (train,)),
        cards=(CPU, replace(GPU, identity=card, trouble=film, foreign=(ForeignUse(train, 5, 3.0),),
                            sensors=(Sensor(sensor, "core", 60.0),))),
        why_unknown={"network": f"{film} does not answer"},
    )  # fmt: skip
    told = facts_of(snapshot, NOW_S - 10.0, pace=30.0)
    text = encode(told).decode()
    assert [name for name in names if name in text] == []
    assert told.at_s == 300.0
    assert told.idle == IdleFacts(-1500.0, "source", awake_for="program", locked_since_s=300.0)
    assert told.play == PlayFacts(("game 1", "game 2"), "program", ("program 1",))
    assert told.unknown == ("network",)
    assert told.cards[1].identity == "card-1"
    assert told.cards[1].foreign == (ForeignUse("program 1", 5, 3.0),)


def test_what_was_written_is_read() -> None:
    first, second = line(0.0), line(5.5, power=None, is_asleep=True)
    found = recorded(first, Act(2.0, "key"), second, end_s=9.0)
    assert (found.facts, found.acts, found.span_s) == ((first, second), (Act(2.0, "key"),), 9.0)


BEGIN = encode(Begin(FORMAT))
FACTS = encode(line(5.0))


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ([], 1),
        ([BEGIN], 1),
        ([FACTS], 1),
        ([BEGIN, BEGIN, FACTS], 2),
        ([encode(Begin(FORMAT + 1)), FACTS], 1),
        ([BEGIN, FACTS, b"nonsense"], 3),
        ([BEGIN, FACTS, encode(Act(4.9, "key"))], 3),
        ([BEGIN, FACTS, encode(End(6.0)), FACTS], 4),
        ([BEGIN, b'{"type":"facts","at_s":1,"cards":[],"more":1}'], 2),
        ([BEGIN, b'{"type":"facts","at_s":1e300,"cards":[]}'], 2),
        ([BEGIN, b"[" * 40_000], 2),
        ([BEGIN, b" " * (MOST_LINE_BYTES + 1)], 2),
        ([BEGIN, b"\xff\xfe"], 2),
    ],
)
def test_what_is_no_recording_is_refused_with_the_line(lines: list[bytes], number: int) -> None:
    with pytest.raises(AgentError) as error:
        read(lines)
    assert error.value.code == "recording_malformed"
    assert error.value.fields["line"] == number


def test_one_that_was_broken_off_ends_with_its_last_facts() -> None:
    assert read([BEGIN, FACTS]).span_s == 5.0


def test_a_replay_decides_at_changes_and_when_the_rules_said_it_would() -> None:
    used = IdleFacts(NOW_S + 100.0, "keys", is_active=True)
    found = recorded(
        line(0.0), line(100.0, idle=used), line(102.0, idle=replace(used, is_active=False))
    )
    gpu = [each for each in replay(found, choices()) if each.card == 1]
    assert gpu == [
        Decision(0.0, 1, "RUN", ("away",)),
        Decision(100.0, 1, "STOP", ("in_use",)),
        Decision(400.0, 1, "RUN", ("away",)),  # five minutes after the key, with no new fact
    ]


def test_hours_count_from_where_the_replay_begins() -> None:
    chosen = choices(profile="custom", hours__spans=["daily 12:30-24:00"])
    found = [each for each in replay(recorded(line(0.0)), chosen) if each.card == 1]
    assert [(each.at_s, each.ruling) for each in found] == [(0.0, "STOP"), (1800.0, "RUN")]
    later = replay(recorded(line(0.0)), chosen, BEGIN_S + 3600.0)
    assert {each.ruling for each in later} == {"RUN"}


def test_an_input_that_never_was_stays_one() -> None:
    told = facts_of(facts(idle=IdleFacts(0.0, "terminals")), NOW_S)
    assert told.idle is not None
    assert told.idle.last_input_s == NEVER_S
    codes = {code for each in replay(recorded(told), choices()) for code in each.codes}
    assert "never_used" in codes


def test_what_no_probe_told_lends_nothing() -> None:
    lost = facts_of(replace(FREE, idle=None, why_unknown={"idle": "lost"}), NOW_S)
    assert {each.ruling for each in replay(recorded(lost), choices())} == {"STOP"}


# -- the recorded hour -------------------------------------------------------------------------


def test_the_recorded_hour_is_decided_as_it_was() -> None:
    """A change of a rule that changes an hour of a desktop has to be meant."""
    recording = read(PLACE.read_bytes().splitlines())
    assert decided(recording) == json.loads(DECIDED.read_text())


def test_in_the_recorded_hour_every_cause_stops_the_card_and_nothing_else_does() -> None:
    recording = read(PLACE.read_bytes().splitlines())
    assert recording.span_s >= 3600.0
    decisions = replay(recording, choices())
    given = given_back_s(recording, decisions, 1)
    assert [what for what, _ in given] == [
        "key", "game", "game", "full_screen", "battery", "metered", "key"
    ]  # fmt: skip
    assert max(seconds for _, seconds in given) < float("inf")
    assert false_stops(recording, decisions, 1) == []
    assert {act.what for act in recording.acts} >= {"noise", "mains", "unmetered"}


def test_a_false_stop_and_one_that_does_not_come_are_seen() -> None:
    recording = recorded(line(0.0), Act(1000.0, "key"), line(2500.0, play=PlayFacts(("a game",))))
    decisions = replay(recording, choices())
    assert given_back_s(recording, decisions, 1) == [("key", float("inf"))]
    assert [each.at_s for each in false_stops(recording, decisions, 1)] == [2500.0]
