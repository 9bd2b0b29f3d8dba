"""Partial matches, on which the tests of the machine rest."""

from __future__ import annotations

import pytest

from app.agent.instructions import CancelTask, SubmitTask, matches
from gpugoblin.ids import LeaseId


def test_a_match_looks_at_the_named_fields_only() -> None:
    told = SubmitTask(card=1, lease=LeaseId("lease_a"), stimulus="s")
    assert matches(told, SubmitTask)
    assert matches(told, SubmitTask, card=1)
    assert not matches(told, SubmitTask, card=2)
    assert not matches(told, CancelTask, card=1)


def test_a_misspelled_field_is_an_error() -> None:
    with pytest.raises(LookupError):
        matches(SubmitTask(card=1, lease=LeaseId("lease_a")), SubmitTask, crad=1)
