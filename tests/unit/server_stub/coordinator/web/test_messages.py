"""The extraction finds texts of templates, code and refusals."""

from __future__ import annotations

from gpugoblin.error_codes import ALL_CODES
from server_stub.coordinator.web.messages import SHOWN, extracted


def test_all_three_sources_are_read() -> None:
    found = extracted()
    assert found["Lend a card"] == "home.html"
    assert found["Your application is approved"] == "letters.py"
    assert ALL_CODES[SHOWN[0]].what in found


def test_shown_codes_are_declared_and_sorted() -> None:
    assert set(SHOWN) <= set(ALL_CODES)
    assert sorted(SHOWN) == list(SHOWN)
