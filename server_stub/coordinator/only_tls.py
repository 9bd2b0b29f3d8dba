"""Tells browsers to come over TLS alone (RFC 6797), where that locks nobody out.

Owns: when the header is sent, and what it says. Must not: look at a request.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server_stub.coordinator.settings import Settings

__all__ = ["HEADER", "OnlyTlsApp", "words"]

HEADER: Final = "Strict-Transport-Security"
_YEAR_S: Final = 31_536_000


def words(settings: Settings) -> str:
    """What the header says; "" where it is not sent.

    Only where browsers see a certificate of an authority: one from files, or that of the proxy
    behind which `public_url` says `https`. With a self-made one they would not heed it anyway.
    """
    is_trusted = settings.tls == "files" or settings.public_url.startswith("https://")
    if settings.only_tls == "off" or not is_trusted:
        return ""
    below = "; includeSubDomains" if settings.only_tls == "subdomains" else ""
    return f"max-age={_YEAR_S}{below}"


class OnlyTlsApp:
    """Adds the header to every answer."""

    def __init__(self, app: ASGIApp, said: str) -> None:
        self._app = app
        self._said = said

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = self._said
            await send(message)

        await self._app(scope, receive, told)
