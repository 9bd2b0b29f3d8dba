"""Letters say what they must in every language."""

from __future__ import annotations

import pytest

from server_stub.coordinator.mail import letters
from server_stub.coordinator.web.languages import LANGUAGES


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_the_code_stands_in_subject_and_words(language: str) -> None:
    subject, words = letters.code("12345678", 600.0, language)
    assert "1234 5678" in subject
    assert "1234 5678" in words
    assert "10" in words


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_lines_are_short_enough_for_mail(language: str) -> None:
    parts = [
        letters.code("12345678", 600.0, language),
        letters.application_decided(True, "", language),
        letters.application_decided(False, "", language),
    ]
    for subject, words in parts:
        assert "\n" not in subject
        assert max(map(len, words.split("\n"))) <= 76


def test_the_answer_is_in_the_letter_when_there_is_one() -> None:
    assert "Not yet." in letters.application_decided(False, "Not yet.", "en")[1]
    assert "writes" not in letters.application_decided(False, "", "en")[1]
    assert "Ann" in letters.application_waits("Ann", "University", "fr")[1]
