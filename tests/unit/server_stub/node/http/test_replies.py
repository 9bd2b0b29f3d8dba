"""Bounds, statuses and the JSON of errors."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from gpugoblin.error_codes import ALL_CODES
from gpugoblin.errors import GoblinError, NodeError, WireError
from gpugoblin.wire.messages.lease import Uploaded
from server_stub.node.http import replies

__all__: list[str] = []


def request(body: bytes, headers: dict[str, str] | None = None, query: str = "") -> Request:
    sent = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return sent.pop(0)

    named = {"content-length": str(len(body))} if headers is None else headers
    scope = {
        "type": "http", "method": "POST", "path": "/x", "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in named.items()],
    }  # fmt: skip
    return Request(scope, receive)


def refusal(work: Any) -> str:
    with pytest.raises(GoblinError) as caught:
        asyncio.run(work)
    return caught.value.code


def test_a_message_is_bounded_before_it_is_read() -> None:
    good = request(b'{"lease":"lease_aaaa"}')
    assert asyncio.run(replies.read_message(good, Uploaded)) == Uploaded("lease_aaaa")  # type: ignore[arg-type]
    announced = request(b"", {"content-length": "5000"})
    assert refusal(replies.read_message(announced, Uploaded)) == "message_too_large"
    more = request(b"x" * 5000, {"content-length": "10"})
    assert refusal(replies.read_message(more, Uploaded)) == "message_too_large"
    assert refusal(replies.read_message(request(b"{}"), Uploaded)) == "message_malformed"
    chunked = request(b"{}", {"transfer-encoding": "chunked"})
    assert refusal(replies.read_message(chunked, Uploaded)) == "length_required"
    odd = request(b"{}", {"content-length": "-3"})
    assert refusal(replies.read_message(odd, Uploaded)) == "length_required"


def test_pieces_are_no_more_than_was_announced() -> None:
    async def collect(one: Request) -> list[bytes]:
        return [piece async for piece in replies.pieces(one, 1000, 10)]

    assert asyncio.run(collect(request(b"a" * 25))) == [b"a" * 25]
    assert refusal(collect(request(b"a" * 25, {"content-length": "20"}))) == "body_too_large"
    assert refusal(collect(request(b"", {"content-length": "2000"}))) == "body_too_large"


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "9" * 30, "99", "\u0663"])
def test_numbers_of_the_query_are_checked(text: str) -> None:
    from urllib.parse import quote

    with pytest.raises(NodeError) as caught:
        replies.integer(request(b"", query=f"n={quote(text)}"), "n", 0, 0, 50)
    assert caught.value.code == "parameter_invalid"


def test_a_number_of_the_query() -> None:
    assert replies.integer(request(b"", query="n=7"), "n", 0, 0, 50) == 7
    assert replies.integer(request(b""), "n", 3, 0, 50) == 3


def test_every_status_belongs_to_a_code() -> None:
    assert set(replies.STATUS) <= set(ALL_CODES)
    assert set(replies.STATUS.values()) <= set(range(400, 600))


def test_an_error_says_code_what_and_next_step() -> None:
    response = replies.error_response(NodeError("unknown_job", job="j"))
    assert response.status_code == 404
    body = msgspec.json.decode(response.body)
    assert body["code"] == "unknown_job"
    assert body["fields"] == {"job": "j"}
    assert body["what"]
    assert body["next_step"]
    assert replies.error_response(WireError("signature_wrong")).status_code == 401
    busy = replies.error_response(NodeError("shutting_down"))
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "2")


def test_a_surprise_tells_the_caller_a_code_only() -> None:
    response = asyncio.run(replies.on_surprise(request(b""), ValueError("secret detail")))
    assert response.status_code == 500
    assert b"secret" not in bytes(response.body)


@pytest.mark.parametrize("parts", [[b""], [b"abc"], [b"ab", b"", b"c" * 70_000, b"d"]])
def test_a_body_comes_in_parts(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert asyncio.run(replies.whole_body(in_parts(parts), len(whole))) == whole
    if whole:
        assert refusal(replies.whole_body(in_parts(parts), len(whole) - 1)) == "body_too_large"


def in_parts(parts: list[bytes]) -> Any:
    last = len(parts) - 1
    sent = [
        {"type": "http.request", "body": part, "more_body": at < last}
        for at, part in enumerate(parts)
    ]

    async def receive() -> Any:
        return sent.pop(0)

    return receive
