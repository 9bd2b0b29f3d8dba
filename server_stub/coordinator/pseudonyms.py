"""What a lab learns about owners and networks: enough to see who is independent, not who it is.

Owns: pseudonyms of owners and buckets of networks. Both are keyed hashes with the lab mixed in, so
two labs cannot compare their lists, and nobody without the key can test a guess.
"""

from __future__ import annotations

import base64

from blake3 import blake3

from gpugoblin.ids import AccountId, LabId, OwnerPseudonym
from server_stub.web.rates import network_prefix

__all__ = ["network_bucket", "owner_pseudonym"]


def owner_pseudonym(key: bytes, account: AccountId, lab: LabId) -> OwnerPseudonym:
    """The name by which `lab` knows the owner `account`. The same for all of its devices."""
    digits = _keyed(key, b"owner", lab.encode(), account.encode()).digest(length=16)
    text = base64.b32encode(digits).decode("ascii").rstrip("=").lower()
    return OwnerPseudonym(f"owner_{text}")


def network_bucket(key: bytes, address: str, lab: LabId | None) -> str:
    """16 hexadecimal digits for the network of `address`, as `lab` (or the coordinator) sees it."""
    scope = b"" if lab is None else lab.encode()
    return _keyed(key, b"network", scope, network_prefix(address).encode()).hexdigest(length=8)


def _keyed(key: bytes, *parts: bytes) -> blake3:
    state = blake3(key=key)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state
