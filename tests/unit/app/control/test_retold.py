"""What the agent says in English comes out in the reader's language, or as it came."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.agent import display, doctor, speech
from app.control import words
from app.control.messages import Finding, ReasonItem
from app.control.retold import COUNTS, FINDINGS, fields_retold, finding_lines, retold
from app.control.texts import _, speak


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    speak("fr")
    yield
    speak("en")


@pytest.mark.parametrize("template", [*FINDINGS, *COUNTS])
def test_each_sentence_comes_out_translated(template: str) -> None:
    made = template.format_map({name: name.upper() for name in (
        "address", "span", "free", "least", "name", "why", "kind", "driver", "count", "classes",
        "memory", "level", "card", "directory", "fingerprint", "source", "n",
        "command", "cap",
    )})  # fmt: skip
    told = retold(made, (*FINDINGS, *COUNTS))
    assert told != made, "it is said in English"
    assert "{" not in told


def test_what_nobody_declared_stays_as_it_came() -> None:
    assert retold("A sentence of another version.") == "A sentence of another version."
    assert retold("x" * 100_000) == "x" * 100_000
    finding = Finding("sandbox", False, "bwrap is missing.", "Install bubblewrap.")
    assert finding_lines(finding) == (f"{_('Walls')}: bwrap is missing.", "Install bubblewrap.")


def test_a_finding_has_a_title_and_a_fix_only_where_it_is_ill() -> None:
    well = finding_lines(Finding("enrolment", True, "This device is enrolled.", "x"))
    assert well == (f"{_('Enrollment')}: {_('This device is enrolled.')}", "")


def test_notices_are_told_whole() -> None:
    items = (ReasonItem("game_runs", {"games": "Racer"}), ReasonItem("hours_end", {"ends_at": "9"}))
    speak("en")
    because = words.reasons(items)
    speak("fr")
    told = fields_retold({"card": 1, "because": because, "until": ", until 09:00:00"})
    assert told["because"] == words.reasons(items)
    assert told["because"] != because
    assert "09:00:00" in str(told["until"])
    assert told["until"] != ", until 09:00:00"
    assert fields_retold({"sent": "3 results sent"})["sent"] != "3 results sent"


def test_days_in_a_notice_are_those_of_the_reader() -> None:
    items = (ReasonItem("away", {"last_at_s": 1_767_268_800.0, "source": "X11"}),)
    speak("en")
    because = words.reasons(items)
    assert "Thu " in because
    speak("ja")
    assert fields_retold({"because": because})["because"] == words.reasons(items)
    assert "Thu" not in words.reasons(items)


def test_the_sentences_are_those_of_the_agent() -> None:
    """A sentence that was changed there must be changed here."""
    assert {text.replace("{}", "{n}") for text in speech._COUNTED.values()} == set(COUNTS)
    for known in display._KNOWN.values():
        assert f"{known} ({{source}})." in FINDINGS
    assert doctor.DRIVERS[0] in FINDINGS
