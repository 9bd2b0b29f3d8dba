"""One request of a browser: who it is, in which language, and the page that answers it.

Owns: `Visit`, and the rendering of templates with the headers that every page carries. Must not:
know a page's facts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from babel.dates import format_date, format_datetime
from babel.numbers import format_decimal
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from gpugoblin.error_codes import ALL_CODES
from gpugoblin.errors import GoblinError
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.web.charts import short
from server_stub.coordinator.web.languages import LANGUAGES, translations

__all__ = ["HEADERS", "Visit", "go", "path_of", "render", "said"]

_HERE: Final = Path(__file__).parent

HEADERS: Final = {
    # Nothing from elsewhere, no script at all, no frame around us.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


@dataclass(slots=True)
class Visit:
    """A request and what is known of its sender.

    Attributes:
        person: who is signed in, if anyone.
        session: the secret of that session, or "".
        token: what the forms of this browser carry.
        address: where the request came from.
        given: the fields of the form that was refused, to be shown again.
        error: why it was refused.
    """

    request: Request
    now_s: float
    address: str
    person: Person | None
    session: str
    visitor: str
    token: str
    language: str
    given: dict[str, str] = field(default_factory=dict)
    error: GoblinError | None = None

    def parameter(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name]).replace("\0", "\ufffd")  # PostgreSQL has no NUL


def render(visit: Visit, template: str, status: int = 200, **facts: Any) -> Response:
    """A page from a template."""
    environment = _environment(visit.language)
    text = environment.get_template(template).render(
        visit=visit,
        person=visit.person,
        given=_Given(visit.given),
        error=None if visit.error is None else said(visit.error, visit.language),
        languages=LANGUAGES,
        here=path_of(visit.request),
        **facts,
    )
    return HTMLResponse(text, status)


def said(error: GoblinError, language: str) -> tuple[str, str]:
    """What was wrong and what to do, in the reader's language."""
    declared = ALL_CODES[error.code]
    gettext = translations(language).gettext
    return (
        gettext(declared.what).format(**error.fields),
        gettext(declared.next_step).format(**error.fields),
    )


class _Given(dict[str, str]):
    """What was typed; "" where nothing was."""

    def __missing__(self, name: str) -> str:
        return ""


def path_of(request: Request) -> str:
    """The path that was asked for. Not `request.url`: a sender's Host header is part of that."""
    return str(request.scope["path"])


def go(place: str) -> Response:
    """To another page of ours, after a form was accepted."""
    return RedirectResponse(place, 303)


@functools.cache
def _environment(language: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    environment.install_gettext_translations(translations(language), newstyle=True)  # type: ignore[attr-defined]
    environment.policies["ext.i18n.trimmed"] = True
    environment.filters["moment"] = functools.partial(_moment, language)
    environment.filters["day"] = functools.partial(_day, language)
    environment.filters["units"] = functools.partial(_number, language)
    environment.filters["short"] = short
    return environment


def _moment(language: str, moment_s: float | None) -> str:
    if moment_s is None:
        return "-"
    moment = datetime.fromtimestamp(moment_s, tz=UTC)
    return f"{format_datetime(moment, 'medium', locale=language)} UTC"


def _day(language: str, day: int) -> str:
    return format_date(datetime.fromtimestamp(day * 86_400, tz=UTC).date(), locale=language)


def _number(language: str, value: float) -> str:
    pattern = "#,##0.###" if abs(value) < 1000 else "#,##0"
    return format_decimal(value, format=pattern, locale=language)
