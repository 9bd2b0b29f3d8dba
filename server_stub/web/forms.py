"""What a browser sends: fields of a form, cookies, and the proof that the form was ours.

Owns: their bounded reading, the tokens against forged requests, the cookies' attributes. Must not:
know a page.

Two independent walls against forged requests (OWASP, cross-site request forgery): a token bound to
this browser in every form, and the Origin of every POST. Cookies are `SameSite` besides.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from gpugoblin.errors import WebError
from gpugoblin.hashing import digest

__all__ = [
    "ASK",
    "LANGUAGE",
    "MAX_FORM_BYTES",
    "SESSION",
    "VISITOR",
    "check_origin",
    "check_token",
    "fresh_visitor",
    "parse_form",
    "set_cookie",
    "token_of",
]

MAX_FORM_BYTES: Final = 48 * 1024
"""Holds the largest application in letters of four bytes, written as %XX."""

MAX_FIELDS: Final = 32
FORM: Final = "gpugoblin 2026-11 form"

SESSION: Final = "__Host-session"
VISITOR: Final = "__Host-visitor"
ASK: Final = "__Host-ask"
LANGUAGE: Final = "__Host-language"


def parse_form(body: bytes) -> dict[str, str]:
    """The fields of `application/x-www-form-urlencoded`; of two with one name, the last.

    Raises:
        WebError: `form_malformed`.
    """
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as cause:
        raise WebError("form_malformed") from cause
    if any("\0" in name or "\0" in value for name, value in fields):
        raise WebError("form_malformed")  # no browser lets one type it; PostgreSQL has none
    return dict(fields)


def fresh_visitor() -> str:
    """A name for a browser that has none, known to it alone."""
    return secrets.token_urlsafe(24)


def token_of(key: bytes, visitor: str, session: str) -> str:
    """What every form of this browser carries. A sign-in changes it, so old forms are void."""
    return digest(FORM, (key, visitor.encode(), b"\0", session.encode()))[:43]


def check_token(given: str, right: str) -> None:
    """Raises WebError `form_foreign` when a form was not made by us for this browser."""
    if not hmac.compare_digest(given.encode(), right.encode()):
        raise WebError("form_foreign")


def check_origin(request: Request, public_url: str) -> None:
    """Raises WebError `form_foreign` when another site's page sent the request.

    Browsers name the origin of every POST (Fetch standard); where a privacy setting hides it, the
    token decides alone.
    """
    origin = request.headers.get("Origin", "")
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise WebError("form_foreign")
    if not origin:
        return
    expected = urlsplit(public_url).netloc if public_url else request.headers.get("Host", "")
    try:
        given = urlsplit(origin).netloc
    except ValueError as cause:
        raise WebError("form_foreign") from cause
    if given != expected:
        raise WebError("form_foreign")


def set_cookie(
    response: Response,
    name: str,
    value: str,
    lasts_s: float | None = None,
    site: Literal["lax", "strict"] = "lax",
) -> None:
    """Sets a cookie, or removes it when the value is empty.

    `__Host-`: only over TLS (browsers count this machine as such), for this host alone.
    """
    if not value:
        response.delete_cookie(name, path="/", secure=True, httponly=True, samesite=site)
        return
    response.set_cookie(
        name,
        value,
        max_age=None if lasts_s is None else int(lasts_s),
        path="/",
        secure=True,
        httponly=True,
        samesite=site,
    )
