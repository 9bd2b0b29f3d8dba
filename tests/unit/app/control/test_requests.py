"""What a program says: numbered, bounded, and nothing besides."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from app.control.messages import decode_request
from app.control.requests import SLOW_VERBS, Hello, Logs, Pause, Request
from gpugoblin.errors import AgentError


@pytest.mark.parametrize("kind", get_args(Request), ids=lambda kind: kind.__name__)
def test_every_request_has_a_number_but_the_first_line(kind: Any) -> None:
    fields = msgspec.structs.fields(kind)
    assert (fields[0].name == "request") is (kind is not Hello)
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.frozen


def test_what_takes_its_time_is_a_request() -> None:
    assert set(SLOW_VERBS) < set(get_args(Request))


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"Logs","request":1,"lines":5001}',
        b'{"type":"Logs","request":-1}',
        b'{"type":"Logs","request":1,"more":1}',
        b'{"type":"Pause","request":1,"intent":"a b"}',
        b'{"type":"Pause","request":1,"intent":"a","cards":[64]}',
        b'{"type":"Welcome","version":3,"build":"x"}',
    ],
)
def test_what_is_out_of_bounds_is_refused(line: bytes) -> None:
    with pytest.raises(AgentError, match="control_malformed"):
        decode_request(line)


def test_what_is_within_them_is_taken() -> None:
    assert decode_request(b'{"type":"Logs","request":1,"lines":5000}') == Logs(1, 5000)
    line = b'{"type":"Pause","request":1,"intent":"a","cards":[63]}'
    assert decode_request(line) == Pause(1, "a", (63,))
