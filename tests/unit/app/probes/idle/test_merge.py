"""One answer from many sources: each complaint about idleness of other programs is a test."""

from __future__ import annotations

from app.probes.idle.merge import Desktop, Merged, merge
from app.probes.idle.source import Input, SourceName

DESKTOP, SERVER = Desktop(is_there=True), Desktop(is_there=False)
QUIET = Input(100.0)


def told(desktop: Desktop, **inputs: Input) -> Merged:
    given: dict[SourceName, Input] = {"terminals": QUIET}
    given.update(inputs)  # type: ignore[typeddict-item]
    return merge(given, {}, desktop)


def test_a_server_lends_by_its_terminals() -> None:
    facts = told(SERVER).facts
    assert facts is not None
    assert (facts.last_input_s, facts.is_active) == (100.0, False)


def test_without_terminals_nothing_is_known() -> None:
    assert merge({}, {"terminals": "closed"}, SERVER).facts is None


def test_waiting_for_idle_forever_is_said_instead() -> None:
    """I#1218, I#945: no source speaks for the desktop, and the owner reads why."""
    silent = merge({"terminals": QUIET}, {"wayland": "no idle notifier"}, DESKTOP)
    assert silent.facts is None
    assert "wayland: no idle notifier" in silent.line


def test_before_sessions_are_known_nothing_is() -> None:
    assert told(Desktop()).facts is None


def test_b5226_b6908_the_best_source_speaks_and_the_latest_input_counts() -> None:
    facts = told(DESKTOP, wayland=Input(500.0), x11=Input(900.0)).facts
    assert facts is not None
    assert (facts.last_input_s, facts.source) == (500.0, "wayland")
    typed = told(DESKTOP, wayland=Input(500.0), terminals=Input(800.0)).facts
    assert typed is not None
    assert (typed.last_input_s, typed.source) == (800.0, "terminals")


def test_an_active_desktop_is_active_whatever_a_terminal_says() -> None:
    facts = told(DESKTOP, mutter=Input(50.0, is_active=True)).facts
    assert facts is not None
    assert facts.is_active


def test_a_remote_desktop_is_somebody() -> None:
    """I#1674: a session by RDP is not away."""
    facts = told(Desktop(is_there=True, is_remote=True), logind=QUIET).facts
    assert facts is not None
    assert facts.is_active


def test_a_film_by_any_list() -> None:
    facts = told(DESKTOP, wayland=Input(5.0, awake_for="a program")).facts
    assert facts is not None
    assert facts.awake_for == "a program"
    listed = told(Desktop(is_there=True, awake_for="Player"), x11=QUIET).facts
    assert listed is not None
    assert listed.awake_for == "Player"


def test_the_hint_of_another_users_idle_desktop_counts() -> None:
    facts = told(SERVER, remote=Input(700.0)).facts
    assert facts is not None
    assert facts.last_input_s == 700.0
