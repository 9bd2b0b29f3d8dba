"""The one hash of the house: BLAKE3-256 with a domain string per kind of thing.

Owns: domains and digests. A digest is 64 lower-case hexadecimal digits. BLAKE3's own key-derivation
mode keeps domains apart (BLAKE3 specification, section 2.3), so equal bytes of two kinds never
share a name. `blake3` is the one dependency of the leaf modules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from blake3 import blake3

__all__ = [
    *("BLOB", "CATALOG", "CHUNK", "GRAPH", "JOB", "REQUEST", "TEMPLATE"),
    *("Hasher", "digest", "raw_digest"),
]

Buffer = bytes | bytearray | memoryview

CHUNK: Final = "gpugoblin 2026-11 chunk"
BLOB: Final = "gpugoblin 2026-11 blob"
GRAPH: Final = "gpugoblin 2026-11 graph"
CATALOG: Final = "gpugoblin 2026-11 catalog"
JOB: Final = "gpugoblin 2026-11 job"
REQUEST: Final = "gpugoblin 2026-11 request"
TEMPLATE: Final = "gpugoblin 2026-11 template"


class Hasher:
    """An incremental digest in one domain."""

    def __init__(self, domain: str) -> None:
        self._state = blake3(derive_key_context=domain)

    def update(self, data: Buffer) -> None:
        """Adds `data` (a memoryview must be cast to bytes: `array.view(uint8).data`)."""
        self._state.update(data)

    def hexdigest(self) -> str:
        return self._state.hexdigest()


def digest(domain: str, parts: Buffer | Iterable[Buffer]) -> str:
    """The digest of one buffer, or of several in order."""
    hasher = Hasher(domain)
    if isinstance(parts, (bytes, bytearray, memoryview)):
        hasher.update(parts)
    else:
        for part in parts:
            hasher.update(part)
    return hasher.hexdigest()


def raw_digest(domain: str, data: Buffer) -> bytes:
    """The 32 bytes that `digest` of one buffer writes as hexadecimal."""
    return blake3(data, derive_key_context=domain).digest()
