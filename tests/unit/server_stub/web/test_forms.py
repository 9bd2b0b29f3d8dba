"""Bounded reading of forms, and the tokens against forged ones."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import Response

from gpugoblin.errors import WebError
from server_stub.web import forms


def request(**headers: str) -> Request:
    pairs = [
        (name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()
    ]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": pairs})


def test_fields() -> None:
    assert forms.parse_form(b"a=1&b=x+y%C3%A9&a=2") == {"a": "2", "b": "x yé"}
    assert forms.parse_form(b"") == {}
    assert forms.parse_form(b"a=") == {"a": ""}


@pytest.mark.parametrize(
    "body", [b"a", b"\xff", b"a=%FF", b"&".join([b"a=1"] * (forms.MAX_FIELDS + 1))]
)
def test_malformed_forms(body: bytes) -> None:
    with pytest.raises(WebError, match="form_malformed"):
        forms.parse_form(body)


def test_tokens_belong_to_a_browser_and_a_session() -> None:
    token = forms.token_of(b"k" * 32, "visitor", "session")
    forms.check_token(token, token)
    others = [
        forms.token_of(b"l" * 32, "visitor", "session"),
        forms.token_of(b"k" * 32, "visitor2", "session"),
        forms.token_of(b"k" * 32, "visitor", ""),
        "",
    ]
    for other in others:
        with pytest.raises(WebError, match="form_foreign"):
            forms.check_token(other, token)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://grid.example.org"},
        {"Origin": "https://grid.example.org", "Sec_Fetch_Site": "same-origin"},
        {},
    ],
)
def test_our_own_pages_may_send(headers: dict[str, str]) -> None:
    forms.check_origin(request(**headers), "https://grid.example.org")
    forms.check_origin(request(Host="grid.example.org", **headers), "")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://grid.example.org.evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_sites_may_not(headers: dict[str, str]) -> None:
    with pytest.raises(WebError, match="form_foreign"):
        forms.check_origin(request(**headers), "https://grid.example.org")


def test_an_empty_cookie_is_removed() -> None:
    response = Response()
    forms.set_cookie(response, forms.SESSION, "")
    assert "Max-Age=0" in response.headers["set-cookie"]


def test_visitors_differ() -> None:
    assert forms.fresh_visitor() != forms.fresh_visitor()
