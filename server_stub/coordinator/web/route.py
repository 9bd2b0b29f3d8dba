"""What a page is: an address, who may see it, how it is shown, and what its form does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.responses import Response

from server_stub.coordinator.gate import Service
from server_stub.coordinator.web.visit import Visit

__all__ = ["Act", "Page", "Show"]

Show: TypeAlias = Callable[[Service, Visit], Awaitable[Response]]
Act: TypeAlias = Callable[[Service, Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Args:
        path: with `{parameters}` as in Starlette.
        show: answers a GET, and a POST that was refused (`visit.error`, `visit.given`).
        act: answers a POST whose form was checked; the fields are in `visit.given`.
        who: who may see it; strangers are sent to sign in.
    """

    path: str
    show: Show
    act: Act | None = None
    who: Literal["anyone", "person", "operator"] = "anyone"
