"""What every page of ours is made with: the environment of templates, headers, files of style.

Owns: the content policy, the templates and files that the pages of both servers share, and how a
file is served. Must not: know a page, a person or a server.
"""

from __future__ import annotations

import gettext
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

__all__ = ["STATIC", "Given", "environment", "files", "go", "headers", "path_of"]

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"
_STATIC_S: Final = 3600
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def headers(*, scripts: bool = False) -> dict[str, str]:
    """What every page carries: nothing from elsewhere, nothing inline, no frame around us.

    Args:
        scripts: our own files may run, and ask our own server.
    """
    own = " script-src 'self'; connect-src 'self';" if scripts else ""
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'self'; img-src 'self';{own}"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }


def environment(templates: Path, translations: gettext.NullTranslations) -> Environment:
    """Templates of a server beside those of all; undefined names are errors, texts are escaped."""
    made = Environment(
        loader=FileSystemLoader([templates, _HERE / "templates"]),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_translations(translations, newstyle=True)  # type: ignore[attr-defined]
    made.policies["ext.i18n.trimmed"] = True
    return made


class Given(dict[str, str]):
    """What was typed; "" where nothing was."""

    def __missing__(self, name: str) -> str:
        return ""


def path_of(request: Request) -> str:
    """The path that was asked for. Not `request.url`: a sender's Host header is part of that."""
    return str(request.scope["path"])


def go(place: str) -> Response:
    """To another page of ours, after a form was accepted."""
    return RedirectResponse(place, 303)


def files(*directories: Path) -> Callable[[Request], Awaitable[Response]]:
    """Answers with a file of these directories, and of no other, by its name. They are few and
    small, so they are read once."""
    known = {
        path.name: (path.read_bytes(), _TYPES[path.suffix])
        for directory in directories
        for path in directory.iterdir()
    }

    async def answer(request: Request) -> Response:
        found = known.get(str(request.path_params["name"]))
        if found is None:
            raise HTTPException(404)
        kept = {"Cache-Control": f"public, max-age={_STATIC_S}"}
        return Response(found[0], media_type=found[1], headers=kept)

    return answer
