"""The paper of a certificate: the same facts give the same bytes, in letters that are there."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest

from gpugoblin.wire.credits import Certificate
from server_stub.coordinator.web import paper
from server_stub.coordinator.web.languages import LANGUAGES
from server_stub.coordinator.web.paper import draw, font_of

ONE = Certificate("BCDF-GHJK-LMNP-QRST", "ann", "proteins", 20_400, 20_500, 12_500_000, 42, 20_501)
SEAL = "ab" * 64
ADDRESS = "https://grid.example.org/"


def words(drawn: bytes) -> bytes:
    """The streams of a paper in the library's own letters, where texts can be read."""
    found = b""
    for piece in drawn.split(b"stream\n")[1:]:
        try:
            found += zlib.decompress(piece.partition(b"\nendstream")[0])
        except zlib.error:
            continue  # what follows an `endstream` is none
    return found


def test_every_language_says_where_its_letters_are() -> None:
    assert set(paper.FONTS) == set(LANGUAGES)
    assert font_of("xx") is None


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_the_same_facts_give_the_same_bytes(language: str) -> None:
    drawn = draw(ONE, SEAL, ADDRESS, language)
    assert drawn.startswith(b"%PDF-")
    assert drawn == draw(ONE, SEAL, ADDRESS, language)
    assert drawn != draw(msgspec.structs.replace(ONE, receipts=43), SEAL, ADDRESS, language)


def test_all_that_is_certified_stands_on_it() -> None:
    text = words(draw(ONE, SEAL, ADDRESS, "en"))
    for fact in (
        b"Certificate of credits", b"(ann)", b"proteins", b"November 8, 2025", b"February 16, 2026",
        b"12.5 units", b"(42)", b"February 17, 2026", b"no monetary", b"BCDF-GHJK-LMNP-QRST",
        b"https://grid.example.org/certificate?code=BCDF-GHJK-LMNP-QRST", SEAL[:64].encode(),
    ):  # fmt: skip
        assert fact in text, fact
    assert b"https" not in words(draw(ONE, SEAL, "", "en"))


def test_french_is_written_in_the_librarys_own_letters() -> None:
    large = msgspec.structs.replace(ONE, micro_units=12_345_678_901_234)
    assert "(12 345 678,901 unités)".encode("latin-1") in words(draw(large, "", "", "fr"))


def test_the_longest_names_fit() -> None:
    for letter, count in (("w", 64), ("m", 32), ("m", 64), ("i", 64)):
        longest = msgspec.structs.replace(ONE, name=letter * count, lab=letter * 64)
        drawn = draw(longest, SEAL, ADDRESS, "en")
        assert drawn.count(b"/Type /Page\n") == 1
        place = words(drawn).partition(b"(" + longest.name.encode() + b") Tj")[0].rpartition(b"BT ")
        left_mm = float(place[2].split()[0]) * 25.4 / 72.0
        assert left_mm >= 25.0, (letter, count, left_mm)


@pytest.mark.parametrize("language", ["ja", "ru"])
def test_without_a_font_it_is_in_english(
    language: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(paper.FONTS, language, (tmp_path / "none.ttf",))
    assert font_of(language) is None
    assert draw(ONE, SEAL, ADDRESS, language) == draw(ONE, SEAL, ADDRESS, "en")


@pytest.mark.parametrize("language", ["ja", "ru"])
def test_with_a_font_it_is_in_the_readers_language(language: str) -> None:
    if font_of(language) is None:
        pytest.skip("Debian's font for the language is missing")
    assert b"/FontFile2" in draw(ONE, SEAL, ADDRESS, language)
