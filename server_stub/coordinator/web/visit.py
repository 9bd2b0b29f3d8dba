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
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gpugoblin.error_codes import ALL_CODES
from gpugoblin.errors import GoblinError
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.web.languages import LANGUAGES, translations
from server_stub.web.charts import short
from server_stub.web.pages import Given, environment, go, headers, path_of

__all__ = ["HEADERS", "Visit", "go", "path_of", "render", "said"]

_HERE: Final = Path(__file__).parent

HEADERS: Final = headers()


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
    text = (
        _environment(visit.language)
        .get_template(template)
        .render(
            visit=visit,
            person=visit.person,
            given=Given(visit.given),
            error=None if visit.error is None else said(visit.error, visit.language),
            languages=LANGUAGES,
            here=path_of(visit.request),
            **facts,
        )
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


@functools.cache
def _environment(language: str) -> Environment:
    made = environment(_HERE / "templates", translations(language))
    made.filters["moment"] = functools.partial(_moment, language)
    made.filters["day"] = functools.partial(_day, language)
    made.filters["units"] = functools.partial(_number, language)
    made.filters["short"] = short
    return made


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
