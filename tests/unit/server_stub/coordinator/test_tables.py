"""Tables for people."""

from __future__ import annotations

from server_stub.coordinator import tables

__all__: list[str] = []


def test_facts_stand_in_two_columns() -> None:
    shown = {"time_s": 1_790_000_000.0, "labs": 2, "certificate_sha256": ""}
    assert tables.facts(shown).splitlines() == [
        "time                2026-09-21 14:13 UTC",
        "labs                2",
        "certificate sha256",
    ]
    assert tables.facts({}) == ""


def test_rows_are_aligned_with_numbers_to_the_right() -> None:
    shown = [
        {"name": "ann", "created_s": 0.0, "devices": 3, "units": 0.5, "until_s": None},
        {"name": "bartholomew", "created_s": 86400, "devices": 12, "units": 1234.5, "until_s": 0},
    ]
    assert tables.rows(shown).splitlines() == [
        "name         created               devices    units  until",
        "ann          1970-01-01 00:00 UTC        3      0.5  -",
        "bartholomew  1970-01-02 00:00 UTC       12  1,234.5  1970-01-01 00:00 UTC",
    ]
    assert tables.rows([]) == "none"
