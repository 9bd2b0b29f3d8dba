"""Errors as they travel."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.errors import NodeError
from gpugoblin.wire.remote import MAX_ERROR_BYTES, RemoteError, remote_error

BODY = {"code": "not_found", "what": "Nothing.", "next_step": "Look.", "fields": {"path": "/x"}}


def test_the_words_and_fields_are_kept() -> None:
    error = remote_error(404, json.dumps(BODY).encode())
    assert isinstance(error, RemoteError)
    assert isinstance(error, NodeError)
    assert str(error) == "Nothing. Look. [not_found]"
    assert (error.status, error.fields) == (404, {"path": "/x"})


def test_a_code_that_this_version_does_not_know_is_kept_too() -> None:
    error = remote_error(400, json.dumps({**BODY, "code": "invented_later", "more": 1}).encode())
    assert error is not None
    assert error.code == "invented_later"


def test_it_can_be_handed_to_another_process() -> None:
    error = RemoteError(400, "a", "b.", "c.", {"d": 1})
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.status, again.fields) == (str(error), 400, {"d": 1})


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"code": 3, "what": ""}', b"[" * 10_000])
def test_other_bodies_are_no_errors(body: bytes) -> None:
    assert remote_error(500, body) is None


def test_a_long_body_is_not_parsed() -> None:
    assert remote_error(500, json.dumps({**BODY, "what": "x" * MAX_ERROR_BYTES}).encode()) is None


@given(st.binary(max_size=300))
def test_no_bytes_crash_it(body: bytes) -> None:
    assert remote_error(500, body) is None or body
