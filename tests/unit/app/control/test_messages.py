"""The words on the control socket: golden lines, bounds, and nothing unknown."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.control import messages as m
from gpugoblin.errors import AgentError

GOLDEN = Path(__file__).parents[3] / "golden" / "control"

REASON = m.ReasonItem("owner_paused", {"hours": 2.0, "until": "evening"}, 99.5)
ITEMS: tuple[m.Item, ...] = (
    m.AgentItem(
        "agent", "agent-1", 42, 1000.0, "https://c:1", "not_enrolled", "ABCD-2345", "0123", 9.5,
        "custom", 3, "line 4",
    ),
    m.CardItem(
        "card-0", 0, "cpu", "STOP", (REASON,), 7.0, False, "absent", "stopped", "full", "lab_a",
        0, 3, 1, 1e9, "bwrap_missing", "Install bubblewrap.", "lab", 8.5,
        "0000:01:00.0", "A card", 30,
        (m.SensorItem("core", 61.0, 83.0),), 900, 120.5, 2**34, 2**30,
    ),
    m.ProbeItem("probe-idle", "idle", "unknown", "Mutter", "It does not answer."),
    m.NoticeItem("notice-1", 1000.5, "card_stops", {"card": 1, "why": "x", "hours": 1.5}),
    m.GrantItem("grant_a", "lab_a", 0, 2000.0, "Tides", "How waters mix."),
    m.LeaseItem("lease_a", 0, "fetching"),
    m.TotalsItem("totals", 1, 2, 3, 4, 5, 6, 7.5, 8.5, 0.5),
)  # fmt: skip
REQUESTS: tuple[m.Request, ...] = (
    m.Hello(1),
    m.Status(1),
    m.Subscribe(2),
    m.Pause(3, "intent_a", (0, 1), 99.5),
    m.Finish(4, "intent_b"),
    m.Stop(5, "intent_c", (0,)),
    m.Resume(6, "intent_d"),
    m.Quit(7),
    m.SettingsGet(8),
    m.SettingsSet(9, 3, {"queue.prefetch": 2, "a": "b", "c": True, "d": 0.5, "e": ("f",)}),
    m.Doctor(10),
    m.SettingsDescribe(11),
    m.EnrolBegin(12),
    m.EnrolPoll(13),
    m.History(14, 10.0, 20.0, "day", 5),
    m.Logs(15, 20),
    m.Show(16, "settings"),
    m.SigninBegin(17, "ann@example.org", "fr"),
    m.SigninCode(18, "1234 5678"),
    m.Preview(19, {"profile": "always"}),
    m.SelfTest(20, 1),
    m.Machines(22),
    m.SessionReport(21, True, "", 99.5, True, "Player", ("hl2",), "mpv"),
)
ANSWERS: tuple[m.Answer, ...] = (
    m.Welcome(1, "agent-1"),
    m.Snapshot(2, 7, ITEMS),
    m.Delta(8, ITEMS[:1], ("lease_a",)),
    m.Accepted(3, "intent_a", True),
    m.Refused(3, "card_unknown", "No.", "Look."),
    m.SettingsAre(9, 4, {"queue.prefetch": 2}),
    m.SettingsDeclared(
        11,
        (
            m.SettingItem(
                "a.b", "policy", "int", 5, "minutes", "Five.", 1.0, 9.0, (), True, ("away",)
            ),
            m.SettingItem("c", "agent", "texts", ("x",), "", "Texts."),
        ),
    ),
    m.EnrolIs(12, "waiting", "ABCD-2345", "0123", 99.0, ""),
    m.HistoryIs(
        14,
        (m.HistoryRow(1.0, 2.0, 0, "lab_a", 3, 0.5, 1.5, "nvml", 0.1, "EUR", 61.0, 10, 20),),
        False,
    ),
    m.LogsAre(15, (m.LogLine(1.0, "card_stops", "Card 0: stops."),)),
    m.ShowPage("settings"),
    m.PreviewIs(19, (m.WouldItem(0, "STOP", (REASON,), 7.0),)),
    m.SelfTestIs(20, 1, 1e12, 2e10, "full", True),
    m.MachinesAre(
        22,
        (
            m.MachineItem("0123-4567-89ab-cdef", True, 5.0, 9.0, False, 2, 12.5),
            m.MachineItem("fedc-ba98-7654-3210", False, 4.0, None, True, 0, 0.0),
        ),
    ),
    m.Report(10, (m.Finding("disk", False, "Full.", "Empty it."),)),
)


def name(message: object) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", [*REQUESTS, *ANSWERS], ids=name)
def test_golden_lines_of_version_3(message: m.Request | m.Answer) -> None:
    """A changed line is a new version, not a new golden file."""
    golden = (GOLDEN / f"{name(message)}@3.json").read_bytes()
    assert m.encode(message) == golden
    decode = m.decode_request if isinstance(message, get_args(m.Request)) else m.decode_answer
    assert decode(golden) == message


def test_every_message_has_a_golden_line() -> None:
    kinds = {*get_args(m.Request), *get_args(m.Answer)}
    assert {type(message) for message in (*REQUESTS, *ANSWERS)} == kinds
    assert {path.stem for path in GOLDEN.glob("*.json")} == {f"{k.__name__}@3" for k in kinds}
    assert {type(item) for item in ITEMS} == set(get_args(m.Item))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b'{"type":"Nothing"}',
        b'{"type":"Status"}',
        b'{"type":"Status","request":-1}',
        b'{"type":"Status","request":1,"more":2}',
        b'{"type":"Pause","request":1,"intent":"a b"}',
        b'{"type":"Pause","request":1,"intent":"a","cards":[64]}',
        b'{"type":"Hello","version":0}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(AgentError) as caught:
        m.decode_request(line)
    assert caught.value.code == "control_malformed"


def outcome(line: bytes) -> m.Request | str:
    """A request, or the code of its refusal."""
    try:
        return m.decode_request(line)
    except AgentError as error:
        return error.code


@given(st.sampled_from(REQUESTS), st.integers(0, 200), st.integers(0, 255))
def test_a_changed_byte_is_another_message_or_an_error(
    message: m.Request, place: int, byte: int
) -> None:
    line = bytearray(m.encode(message))
    line[place % len(line)] = byte
    decoded = outcome(bytes(line))
    if not isinstance(decoded, str):
        assert m.decode_request(m.encode(decoded)) == decoded
    else:
        assert decoded == "control_malformed"


def test_answers_are_bounded_too() -> None:
    with pytest.raises(AgentError):
        m.decode_answer(b'{"type":"Welcome","version":"x","build":""}')
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"type":"Status","request":1}', type=m.Answer)
