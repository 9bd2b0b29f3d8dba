"""What is said once."""

from __future__ import annotations

import io

import pytest

from gpugoblin.client.notices import GRID, NO_SANDBOX, Notices


def test_once_is_once() -> None:
    stream = io.StringIO()
    notices = Notices(stream)
    for _ in range(3):
        notices.say_once(GRID)
    notices.say_once(NO_SANDBOX)
    assert stream.getvalue() == f"{GRID}\n{NO_SANDBOX}\n"
    assert notices.heard(GRID)


def test_it_is_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Notices().say("hello")
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(
    "words", ["without names", "not encrypted", "tokens", "Confidential, personal or medical"]
)
def test_the_notice_says_what_contributors_see(words: str) -> None:
    assert words in GRID
