"""Numbers of cards: each card's own, whatever comes and goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.agent.card_numbers import MOST_NUMBER, NAME, CardNumbers, numbered


def test_the_first_are_numbered_in_the_order_given() -> None:
    assert numbered({}, ["b", "a"]) == {"b": 1, "a": 2}


def test_a_card_that_comes_between_moves_no_other() -> None:
    known = numbered({}, ["0000:01:00.0", "0000:03:00.0"])
    known = numbered(known, ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"])
    assert known == {"0000:01:00.0": 1, "0000:03:00.0": 2, "0000:02:00.0": 3}


def test_a_card_that_was_away_has_its_number_again() -> None:
    known = numbered(numbered({}, ["a", "b"]), ["b"])
    known = numbered(known, ["b", "c"])
    assert numbered(known, ["a", "b", "c"]) == {"a": 1, "b": 2, "c": 3}


def test_where_all_numbers_are_given_the_longest_gone_gives_its_own() -> None:
    known = numbered({}, [f"x{number}" for number in range(MOST_NUMBER)])
    known = numbered(known, ["x0"])  # the others are gone, x1 first
    known = numbered(known, ["x0", "new"])
    assert (known["x0"], known["new"]) == (1, 2)
    assert "x1" not in known
    everyone = [f"y{number}" for number in range(MOST_NUMBER + 3)]
    full = numbered(known, everyone)
    assert sorted(full.values()) == list(range(1, MOST_NUMBER + 1))
    assert [name for name in everyone if name not in full] == everyone[-3:]


def test_they_are_kept_on_disk(tmp_path: Path) -> None:
    assert CardNumbers(tmp_path).of(["a", "b", "a"]) == {"a": 1, "b": 2}
    again = CardNumbers(tmp_path)
    assert again.of(["c", "b"]) == {"c": 3, "b": 2}
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", '{"cards": {"a": 0}}', '{"cards": {"a": 64}}', '{"cards": {"a": 1, "b": 1}}',
             '{"cards": {"": 1}}', '{"cards": {}, "more": 1}', "\xff"],
)  # fmt: skip
def test_a_damaged_file_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("latin-1"))
    assert CardNumbers(tmp_path).of(["z"]) == {"z": 1}


def test_without_a_directory_they_hold_until_the_end() -> None:
    numbers = CardNumbers(Path("/nonexistent"))
    numbers.of(["a"])
    assert numbers.of(["b", "a"]) == {"b": 2, "a": 1}
