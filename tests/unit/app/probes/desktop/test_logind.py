"""Sessions: whose desktop, who sees it, and what that means for an agent."""

from __future__ import annotations

from typing import Any

import pytest

from app.probes.desktop.logind import Session, desktop_of, session_of
from app.probes.idle.source import Input

ME, OTHER = 1000, 1001


def session(user: int = ME, **changes: Any) -> Session:
    values = {
        "is_desktop": True, "is_active": True, "is_remote": False, "is_locked": False,
        "is_idle": False, "idle_since_s": 0.0, **changes,
    }  # fmt: skip
    return Session(user, **values)


def test_no_session_is_a_server() -> None:
    seen = desktop_of([session(is_desktop=False)], ME, "", None)
    assert (seen.desktop.is_there, seen.own_hint, seen.fault) == (False, None, "")


def test_all_must_be_locked() -> None:
    locked = session(is_locked=True)
    assert desktop_of([locked], ME, "", 5.0).desktop.locked_since_s == 5.0
    assert desktop_of([locked, session()], ME, "", 5.0).desktop.locked_since_s is None


def test_the_hint_is_believed_when_it_says_idle() -> None:
    """FAH waits forever where a desktop never sets the hint: here it is only the last source."""
    idle = session(is_idle=True, idle_since_s=9.0)
    assert desktop_of([idle], ME, "", None).own_hint == Input(9.0)
    assert desktop_of([session()], ME, "", None).own_hint is None
    assert desktop_of([idle, session()], ME, "", None).own_hint is None


def test_another_users_desktop_in_front_is_unknown_until_it_says_idle() -> None:
    seen = desktop_of([session(OTHER)], ME, "", None)
    assert "user 1001" in seen.fault
    idle = session(OTHER, is_idle=True, idle_since_s=7.0)
    assert desktop_of([idle], ME, "", None).others == Input(7.0)
    away = session(OTHER, is_active=False)
    assert desktop_of([away], ME, "", None).fault == ""


def test_a_remote_desktop() -> None:
    assert desktop_of([session(is_remote=True)], ME, "", None).desktop.is_remote


PROPERTIES = {
    "Class": "user", "State": "active", "Type": "wayland", "Active": True, "Remote": False,
    "IdleHint": True, "IdleSinceHint": 9_000_000,
}  # fmt: skip


def test_sessions_from_their_properties() -> None:
    found = session_of(ME, PROPERTIES)
    assert found == session(is_idle=True, idle_since_s=9.0)
    assert session_of(ME, {**PROPERTIES, "Class": "greeter"}) is None
    assert session_of(ME, {**PROPERTIES, "State": "closing"}) is None
    with pytest.raises(LookupError):
        session_of(ME, {})
