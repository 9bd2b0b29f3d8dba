"""TLS whose only proof is a certificate's fingerprint: what urllib3 needs for it.

Owns: the options of a pool of such connections. Must not: connect. urllib3 alone reads the
authorities of the system for every new connection, 40 ms of a processor, though nobody asks them.
"""

from __future__ import annotations

import ssl
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

__all__ = ["PinnedAdapter"]


class PinnedAdapter(HTTPAdapter):
    """Connections to servers with one certificate; the session's `verify` must be false.

    Args:
        certificate_sha256: the fingerprint, which urllib3 compares after each handshake.
        connections: how many are kept at most.
    """

    def __init__(self, certificate_sha256: str, connections: int = 10) -> None:
        self._pinned: dict[str, Any] = {
            "assert_fingerprint": certificate_sha256,
            "ssl_context": create_urllib3_context(cert_reqs=ssl.CERT_NONE),
        }
        super().__init__(pool_maxsize=connections)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        options.update(self._pinned)
        super().init_poolmanager(*args, **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, **options, **self._pinned)
