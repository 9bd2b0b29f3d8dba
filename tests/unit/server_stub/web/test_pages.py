"""Headers, templates and files that the pages of both servers share."""

from __future__ import annotations

import asyncio
import gettext
from pathlib import Path

import jinja2
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from server_stub.web import pages


def request(path: str, name: str = "") -> Request:
    return Request(
        {
            "type": "http",
            "method": "GET",
            "path": path,
            "headers": [],
            "path_params": {"name": name},
        }
    )


def test_no_page_allows_anything_inline_or_from_elsewhere() -> None:
    for scripts in (False, True):
        policy = pages.headers(scripts=scripts)["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert ("script-src 'self'" in policy) == scripts


def test_a_server_has_its_own_templates_and_the_common_ones(tmp_path: Path) -> None:
    (tmp_path / "own.html").write_text(
        '{% import "common.html" as common %}{{ common.count(number, "<b>") }}'
    )
    made = pages.environment(tmp_path, gettext.NullTranslations())
    assert "&lt;b&gt;" in made.get_template("own.html").render(number=3)
    with pytest.raises(jinja2.UndefinedError):
        made.get_template("own.html").render()


def test_what_was_not_typed_is_empty() -> None:
    assert pages.Given({"a": "1"})["a"] == "1"
    assert pages.Given({})["b"] == ""


def test_files_are_those_of_the_directories_alone() -> None:
    answer = pages.files(pages.STATIC)

    async def ask(name: str) -> Response:
        return await answer(request(f"/static/{name}", name))

    found = asyncio.run(ask("site.css"))
    assert found.headers["Cache-Control"] == "public, max-age=3600"
    for name in ("../pages.py", "other.css", ""):
        with pytest.raises(HTTPException):
            asyncio.run(ask(name))


def test_going_on_is_a_get() -> None:
    reply = pages.go("/jobs")
    assert (reply.status_code, reply.headers["location"]) == (303, "/jobs")
    assert pages.path_of(request("/jobs")) == "/jobs"
