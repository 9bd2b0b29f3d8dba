"""A visit, and the words of numbers."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from gpugoblin.errors import NodeError
from server_stub.node.users import User
from server_stub.node.web import visit as visits
from server_stub.node.web.visit import Visit, render, sees_all


def made(user: User | None = None) -> Visit:
    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [], "path_params": {}}
    return Visit(Request(scope), 0.0, user, "", "", "")


def test_nobody_is_nobody() -> None:
    with pytest.raises(NodeError, match="not_authenticated"):
        made().who()
    user = User("ann", frozenset({"read"}), local=False)
    assert made(user).who() is user
    assert not sees_all(user)


def test_an_error_is_told_and_escaped() -> None:
    visit = made()
    visit.error = NodeError("unknown_job", job="<i>x")
    page = render(visit, "refused.html", 404)
    assert page.status_code == 404
    assert b"<i>x" not in page.body
    assert b"&lt;i&gt;x" in page.body


def test_words_of_numbers() -> None:
    filters = visits._environment().filters
    assert filters["moment"](0.0) == "1970-01-01 00:00:00 UTC"
    assert filters["moment"](None) == "-"
    assert filters["count"](1234567) == "1,234,567"
    assert filters["seconds"](0.00001) == "under 1 ms"
    assert filters["seconds"](0.0) == "0 s"
    assert filters["seconds"](75) == "1 min 15 s"
