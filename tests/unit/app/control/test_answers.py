"""What the agent says: numbered after its request, bounded, and nothing besides."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from app.control.answers import Answer, Delta, Finding, Report, ShowPage, Welcome
from app.control.messages import decode_answer, encode
from gpugoblin.errors import AgentError

UNASKED = (Welcome, Delta, ShowPage)


@pytest.mark.parametrize("kind", get_args(Answer), ids=lambda kind: kind.__name__)
def test_every_answer_repeats_a_number_but_what_nobody_asked_for(kind: Any) -> None:
    fields = msgspec.structs.fields(kind)
    assert (fields[0].name == "request") is (kind not in UNASKED)
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.frozen


@pytest.mark.parametrize(
    "findings",
    [
        (Finding("disk", True, "x" * 1001),),
        (Finding("Disk", True, "x"),),
        (Finding("disk", True, "x"),) * 101,
    ],
)
def test_what_is_out_of_bounds_is_refused(findings: tuple[Finding, ...]) -> None:
    with pytest.raises(AgentError, match="control_malformed"):
        decode_answer(encode(Report(1, findings)))


def test_what_is_within_them_is_taken() -> None:
    report = Report(1, (Finding("disk", False, "x" * 1000, "y"),) * 100)
    assert decode_answer(encode(report)) == report
