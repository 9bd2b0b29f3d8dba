"""A look at a lab node from outside, for the lab's administrator: TCP and TLS, and nothing more.

Owns: the connection, its bounds, and how often a lab may ask. Must not: connect to an address that
the operator has not registered, or send a byte after the handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
import time
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from gpugoblin.wire.messages.probe import ProbeOutcome
from server_stub.coordinator.buckets import Rate

__all__ = ["AT_ONCE", "RATE", "Seen", "look"]

RATE: Final = Rate(1 / 20, 5)
"""How often one lab may ask: five times at once, then every 20 s."""

AT_ONCE: Final = 8
PATIENCE_S: Final = 8.0


class Seen(NamedTuple):
    """What was seen at an address; `sha256` of the certificate that was shown, if any."""

    outcome: ProbeOutcome
    took_s: float
    sha256: str | None = None


async def look(address: str, certificate_sha256: str | None) -> Seen:
    """Connects to a registered address and closes again.

    Args:
        certificate_sha256: the registered certificate; None: it must be of an authority.
    """
    began_s = time.monotonic()
    outcome: ProbeOutcome
    shown: str | None = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            shown = await _connect(address, certificate_sha256)
        differs = certificate_sha256 is not None and shown not in (None, certificate_sha256)
        outcome = "certificate_differs" if differs else "reached"
    except TimeoutError:
        outcome = "timed_out"
    except ssl.SSLError:
        outcome = "tls_failed"
    except socket.gaierror:
        outcome = "name_unknown"
    except ConnectionRefusedError:
        outcome = "refused"
    except (ConnectionResetError, EOFError):
        outcome = "tls_failed"
    except (OSError, ValueError):
        outcome = "unreachable"
    return Seen(outcome, time.monotonic() - began_s, shown)


async def _connect(address: str, certificate_sha256: str | None) -> str | None:
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None
    if context is not None and certificate_sha256 is not None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(parts.hostname or "", port, ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object")
        der = None if shown is None else shown.getpeercert(binary_form=True)
        return None if der is None else hashlib.sha256(der).hexdigest()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
