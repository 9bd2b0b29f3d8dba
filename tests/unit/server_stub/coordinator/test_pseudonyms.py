"""Pseudonyms and network buckets."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server_stub.coordinator.pseudonyms import network_bucket, owner_pseudonym

KEY = bytes(range(32))
LAB_A: Any = "lab_a"
LAB_B: Any = "lab_b"
ANN: Any = "account_a"
BOB: Any = "account_b"


def test_pseudonyms_depend_on_owner_lab_and_key() -> None:
    first = owner_pseudonym(KEY, ANN, LAB_A)
    assert re.fullmatch(r"owner_[a-z2-7]{26}", first)
    assert first == owner_pseudonym(KEY, ANN, LAB_A)
    others = {
        owner_pseudonym(KEY, BOB, LAB_A),
        owner_pseudonym(KEY, ANN, LAB_B),
        owner_pseudonym(bytes(32), ANN, LAB_A),
    }
    assert len(others | {first}) == 4


@settings(max_examples=50, deadline=None, database=None)
@given(first=st.ip_addresses(v=4), last=st.integers(0, 255))
def test_one_network_one_bucket(first: Any, last: int) -> None:
    neighbor = str(first).rpartition(".")[0] + f".{last}"
    bucket = network_bucket(KEY, str(first), LAB_A)
    assert re.fullmatch(r"[0-9a-f]{16}", bucket)
    assert network_bucket(KEY, neighbor, LAB_A) == bucket
    assert network_bucket(KEY, neighbor, LAB_B) != bucket
    assert network_bucket(KEY, neighbor, None) != bucket
