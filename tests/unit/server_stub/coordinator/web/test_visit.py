"""Pages are rendered in the reader's language, and refusals are said in it."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from gpugoblin.error_codes import ALL_CODES
from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.web.messages import SHOWN
from server_stub.coordinator.web.visit import Visit, go, render, said

FIELDS: dict[str, Any] = {
    "since": "2026-12-31", "until": "2026-12-30",
    "name": "ann", "kind": "lab", "field": "key", "most": 3, "least": 2, "size": 9,
    "code_point": "U+200E", "account": "ann", "wait_s": 4, "user_code": "ABCD-EFGH",
    "found": "1", "given": "2", "scope": "network", "method": "GET", "path": "/x",
    "reason": "why", "waited_s": 2, "limit_s": 10, "message": "form", "limit": 5,
}  # fmt: skip


def visit(language: str) -> Visit:
    request = Request({"type": "http", "method": "GET", "path": "/how", "headers": []})
    return Visit(request, 0.0, "", None, "", "", "", language)


@pytest.mark.parametrize("language", ["en", "fr", "ja", "ru"])
@pytest.mark.parametrize("code", SHOWN)
def test_refusals_are_said_in_every_language(code: str, language: str) -> None:
    what, next_step = said(CoordinatorError(code, **FIELDS), language)
    assert what
    assert next_step
    assert "{" not in what + next_step
    if language != "en":
        assert what != ALL_CODES[code].what.format(**FIELDS)


def test_a_page_is_of_its_language() -> None:
    assert b"Wie" not in render(visit("fr"), "how.html").body
    assert b"Fonctionnement" in bytes(render(visit("fr"), "how.html").body)


def test_moments_and_numbers_are_written_as_the_language_does() -> None:
    from server_stub.coordinator.web.visit import _day, _moment, _number

    assert _number("fr", 1234567.0) == "1\u202f234\u202f567"
    assert _number("en", 2.5) == "2.5"
    assert _moment("en", None) == "-"
    assert "2026" in _moment("ja", 1_790_000_000.0)
    assert _day("en", 0) == "Jan 1, 1970"


def test_go_is_a_get_after_a_post() -> None:
    assert (go("/x").status_code, go("/x").headers["location"]) == (303, "/x")
