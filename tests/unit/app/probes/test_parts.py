"""Facts from parts: what two sources say of one thing, and what one fault means."""

from __future__ import annotations

from app.policy.snapshot import IdleFacts, NetworkFacts, PlayFacts, PowerFacts
from app.probes.board import Report
from app.probes.desktop.logind import Seen
from app.probes.desktop.supplies import DesktopPower
from app.probes.idle.merge import Desktop
from app.probes.idle.sessions import SessionTold
from app.probes.idle.source import Input
from app.probes.parts import Parts


class Told:
    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.reports: dict[str, Report] = {}

    def __call__(self, report: Report, fact: object) -> None:
        self.facts[report.name], self.reports[report.name] = fact, report


def made() -> tuple[Parts, Told]:
    told = Told()
    return Parts(told, lambda: (10, 20)), told


def test_a_game_is_named_once() -> None:
    parts, told = made()
    parts.put_gamemode(("hl2_linux",))
    assert "play" not in told.facts
    parts.put_scan(PlayFacts(games=("Steam app 220",)), "")
    assert told.facts["play"] == PlayFacts(games=("Steam app 220",))
    parts.put_scan(PlayFacts(), "")
    assert told.facts["play"] == PlayFacts(games=("hl2_linux",))
    parts.put_full_screen("mpv")
    assert told.facts["play"] == PlayFacts(games=("hl2_linux",), full_screen="mpv")
    parts.put_gamemode((), "GameMode does not answer")
    assert told.facts["play"] is None


def test_power_by_kernel_and_desktop() -> None:
    parts, told = made()
    parts.put_supplies(PowerFacts(battery_percent=80.0), "")
    parts.put_desktop_power(DesktopPower(True, True, True, ("UPower",)))
    assert told.facts["power"] == PowerFacts(True, 80.0, False, True, True)
    assert told.reports["power"].source == "kernel, UPower"
    parts.put_supplies(None, "the folder is gone")
    assert told.facts["power"] is None


def test_bytes_are_asked_each_time() -> None:
    parts, told = made()
    parts.tell_network()
    assert told.facts["network"] is None
    parts.put_network(NetworkFacts("no", "wired"), "NetworkManager")
    assert told.facts["network"] == NetworkFacts("no", "wired", 10, 20)


def test_a_source_that_fails_is_remembered_with_its_reason() -> None:
    parts, told = made()
    parts.put_no_sessions(True)
    parts.put_input("terminals", Input(5.0))
    parts.put_input("x11", None, "the X server refuses this user")
    assert told.facts["idle"] is None
    assert "refuses this user" in told.reports["idle"].line
    parts.put_input("x11", Input(7.0))
    assert told.facts["idle"] is not None
    parts.put_sessions_fault("logind does not answer")
    assert (told.facts["idle"], told.reports["idle"].line) == (None, "logind does not answer")
    parts.put_desktop(Seen(Desktop(is_there=True), None, None))
    parts.put_awake("Player")
    fact = told.facts["idle"]
    assert fact is not None
    assert getattr(fact, "awake_for", "") == "Player"


def test_b4084_a_helper_makes_another_users_desktop_known_and_its_silence_unknown() -> None:
    parts, told = made()
    parts.put_input("terminals", Input(5.0))
    parts.put_scan(PlayFacts(), "")
    parts.put_desktop(Seen(Desktop(is_there=False), None, None, "user 1001 is in front", (1001,)))
    assert told.facts["idle"] is None
    parts.put_session(4, SessionTold(1002, Input(7.0)))  # somebody else's word
    assert told.facts["idle"] is None
    parts.put_session(5, SessionTold(1001, Input(9.0, awake_for="Player"), games=("hl2",)))
    fact = told.facts["idle"]
    assert isinstance(fact, IdleFacts)
    assert (fact.last_input_s, fact.source, fact.awake_for) == (9.0, "session", "Player")
    assert told.facts["play"] == PlayFacts(games=("hl2",))
    parts.put_session(5, SessionTold(1001, None, "no source speaks"))
    assert told.facts["idle"] is None
    assert told.reports["idle"].line == "user 1001 is in front: no source speaks"
    parts.put_session(5, SessionTold(1001, Input(9.0), play_why="GameMode does not answer"))
    assert told.facts["play"] is None
    parts.put_session(5, None)
    assert (told.facts["idle"], told.facts["play"]) == (None, PlayFacts())


def test_a_helper_never_makes_more_known_than_the_other_sources_allow() -> None:
    parts, told = made()
    parts.put_session(5, SessionTold(1001, Input(9.0)))
    parts.put_sessions_fault("logind does not answer")
    assert told.facts["idle"] is None
    parts.put_desktop(Seen(Desktop(is_there=False), None, None))
    assert told.facts["idle"] is None  # terminals were not looked at
    parts.put_input("terminals", Input(50.0, is_active=True))
    fact = told.facts["idle"]
    assert isinstance(fact, IdleFacts)
    assert fact.is_active
