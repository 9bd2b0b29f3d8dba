"""Pseudonyms and network buckets."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_stub.coordinator.pseudonyms import network_bucket, network_prefix, owner_pseudonym

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


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("192.0.3.77", "192.0.3.0/24"),
        ("::ffff:192.0.2.9", "192.0.2.0/24"),
        ("2001:db8:1:2ff::1", "2001:db8:1:200::/56"),
        ("2001:db8:1:300::1", "2001:db8:1:300::/56"),
        ("fe80::1%eth0", "fe80::/56"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_prefixes(address: str, prefix: str) -> None:
    assert network_prefix(address) == prefix


@settings(max_examples=50, deadline=None, database=None)
@given(first=st.ip_addresses(v=4), last=st.integers(0, 255))
def test_one_network_one_bucket(first: Any, last: int) -> None:
    neighbor = str(first).rpartition(".")[0] + f".{last}"
    bucket = network_bucket(KEY, str(first), LAB_A)
    assert re.fullmatch(r"[0-9a-f]{16}", bucket)
    assert network_bucket(KEY, neighbor, LAB_A) == bucket
    assert network_bucket(KEY, neighbor, LAB_B) != bucket
    assert network_bucket(KEY, neighbor, None) != bucket
