"""What a lab learns about owners and networks: enough to see who is independent, not who it is.

Owns: pseudonyms of owners and buckets of networks. Both are keyed hashes with the lab mixed in, so
two labs cannot compare their lists, and nobody without the key can test a guess.
"""

from __future__ import annotations

import base64
import ipaddress
from typing import Final

from blake3 import blake3

from gpugoblin.ids import AccountId, LabId, OwnerPseudonym

__all__ = ["network_bucket", "network_prefix", "owner_pseudonym"]

_IPV4_PREFIX: Final = 24
_IPV6_PREFIX: Final = 56
"""What one household or office usually gets; addresses within are one network."""


def owner_pseudonym(key: bytes, account: AccountId, lab: LabId) -> OwnerPseudonym:
    """The name by which `lab` knows the owner `account`. The same for all of its devices."""
    digits = _keyed(key, b"owner", lab.encode(), account.encode()).digest(length=16)
    text = base64.b32encode(digits).decode("ascii").rstrip("=").lower()
    return OwnerPseudonym(f"owner_{text}")


def network_bucket(key: bytes, address: str, lab: LabId | None) -> str:
    """16 hexadecimal digits for the network of `address`, as `lab` (or the coordinator) sees it."""
    scope = b"" if lab is None else lab.encode()
    return _keyed(key, b"network", scope, network_prefix(address).encode()).hexdigest(length=8)


def network_prefix(address: str) -> str:
    """The /24 or /56 that an address lies in; what is no address stands for itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
        parsed = parsed.ipv4_mapped
    return str(ipaddress.ip_network((parsed, _IPV4_PREFIX), strict=False))


def _keyed(key: bytes, *parts: bytes) -> blake3:
    state = blake3(key=key)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state
