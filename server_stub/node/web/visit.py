"""One request of a browser: who it is, and the page that answers it.

Owns: `Visit`, what a page is (`Page`), and the rendering of the node's templates. Must not: know a
page's facts.
"""

from __future__ import annotations

import functools
import gettext
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.units import format_bytes, format_flops, format_ratio, format_seconds
from server_stub.node.node import Node
from server_stub.node.users import User
from server_stub.web.charts import short
from server_stub.web.pages import Given, environment, path_of

__all__ = ["HERE", "Act", "Page", "Show", "Visit", "render", "sees_all"]

HERE: Final = Path(__file__).parent


@dataclass(slots=True)
class Visit:
    """A request and what is known of its sender.

    Attributes:
        user: who is signed in, if anyone; session: the secret of that session, or "".
        token: what the forms of this browser carry.
        given: the fields of the form that was sent.
        error: why it was refused.
    """

    request: Request
    now_s: float
    user: User | None
    session: str
    visitor: str
    token: str
    given: dict[str, str] = field(default_factory=dict)
    error: GoblinError | None = None

    def parameter(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def who(self) -> User:
        """Who is signed in. Raises NodeError `not_authenticated`."""
        if self.user is None:
            raise NodeError("not_authenticated")
        return self.user


Show: TypeAlias = Callable[[Node, Visit], Awaitable[Response]]
Act: TypeAlias = Callable[[Node, Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Args:
        path: with `{parameters}` as in Starlette.
        show: answers a GET, and a POST that was refused (`visit.error`).
        act: answers a POST whose form was checked; its fields are in `visit.given`.
        open: also for those who are not signed in.
    """

    path: str
    show: Show
    act: Act | None = None
    open: bool = False


def sees_all(user: User) -> bool:
    """Whether a user is an administrator of the lab, who sees everybody's jobs."""
    return user.is_administrator


def render(visit: Visit, template: str, status: int = 200, **facts: Any) -> Response:
    """A page from a template."""
    error = visit.error
    text = _environment().get_template(template).render(
        visit=visit,
        user=visit.user,
        administrator=visit.user is not None and sees_all(visit.user),
        given=Given(visit.given),
        error=None if error is None else (error.what, error.next_step),
        here=path_of(visit.request),
        **facts,
    )  # fmt: skip
    return HTMLResponse(text, status)


@functools.cache
def _environment() -> Environment:
    made = environment(HERE / "templates", gettext.NullTranslations())
    made.filters["moment"] = _moment
    made.filters["nbytes"] = format_bytes
    made.filters["flops"] = format_flops
    made.filters["seconds"] = _seconds
    made.filters["ratio"] = format_ratio
    made.filters["short"] = short
    made.filters["count"] = _count
    made.filters["drawn"] = Markup  # of our own drawing, in which texts are escaped
    return made


def _moment(moment_s: float | None) -> str:
    if moment_s is None:
        return "-"
    return f"{datetime.fromtimestamp(moment_s, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(duration_s: float) -> str:
    return "under 1 ms" if 0 < duration_s < 0.001 else format_seconds(duration_s)
