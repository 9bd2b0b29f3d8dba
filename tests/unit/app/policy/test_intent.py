"""The owner's four words and their time."""

from __future__ import annotations

import pytest

from app.policy.intent import LEND, Intent, intent_verdict, is_draining, is_over
from app.policy.rule import Ruling


def test_resume_leaves_it_to_the_rules() -> None:
    assert intent_verdict(LEND, 0.0) is None


@pytest.mark.parametrize(
    ("intent", "code"),
    [
        (Intent("pause"), "owner_paused"),
        (Intent("stop"), "owner_stopped"),
        (Intent("finish", drained=True), "owner_finished"),
    ],
)
def test_words_that_stop(intent: Intent, code: str) -> None:
    verdict = intent_verdict(intent, 0.0)
    assert verdict is not None
    assert verdict.ruling == Ruling.STOP
    assert verdict.reason.code == code


def test_stop_has_no_end() -> None:
    stop = Intent("stop", until_s=5.0)
    verdict = intent_verdict(stop, 6.0)
    assert not is_over(stop, 6.0)
    assert verdict is not None
    assert verdict.until_s is None


def test_a_finish_ends_with_its_time() -> None:
    assert is_draining(Intent("finish", until_s=5.0), 4.0)
    assert not is_draining(Intent("finish", until_s=5.0), 5.0)
    assert intent_verdict(Intent("finish", until_s=5.0), 5.0) is None
