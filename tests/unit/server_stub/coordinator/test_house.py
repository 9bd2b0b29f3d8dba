"""Ids and codes are drawn from the generator that is passed in."""

from __future__ import annotations

import random
import re

import pytest

from server_stub.coordinator.house import draw_code, draw_id, draw_long_code, spelled


def test_ids() -> None:
    assert re.fullmatch(r"lab_[a-z2-7]{26}", draw_id("lab", random.Random(1)))
    assert draw_id("lab", random.Random(1)) == draw_id("lab", random.Random(1))
    rng = random.SystemRandom()
    assert len({draw_id("lab", rng) for _ in range(100)}) == 100


def test_codes() -> None:
    rng = random.Random(1)
    codes = [draw_code(rng) for _ in range(500)]
    letters = set("".join(codes).replace("-", ""))
    assert letters == set("BCDFGHJKLMNPQRSTVWXZ")
    assert all(re.fullmatch(r"[A-Z]{4}-[A-Z]{4}", code) for code in codes)
    assert len(set(codes)) == 500


@pytest.mark.parametrize("seed", range(5))
def test_long_codes_are_read_in_any_spelling(seed: int) -> None:
    code = draw_long_code(random.Random(seed))
    assert re.fullmatch(r"([B-DF-HJ-NP-TV-XZ]{4}-){3}[B-DF-HJ-NP-TV-XZ]{4}", code)
    for written in (code, code.lower(), code.replace("-", ""), f" {code.replace('-', ' ')}\n"):
        assert spelled(written) == code
