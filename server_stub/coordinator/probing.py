"""A look at a lab node from outside, for the lab's administrator: TCP and TLS, and nothing more.

Owns: the connection, its bounds, and how often a lab may ask. Must not: connect to an address that
the operator has not registered, or send a byte after the handshake; be a lab's eye into a network
that the lab is not in, by a registered name that the lab lets point there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
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


async def look(address: str, certificate_sha256: str | None, asker: str) -> Seen:
    """Connects to a registered address and closes again.

    Args:
        certificate_sha256: the registered certificate; None: it must be of an authority.
        asker: where the question came from. To one of the Internet, a name of a private address is
            `unreachable`; the operator may have registered such an address itself.
    """
    began_s = time.monotonic()
    outcome: ProbeOutcome
    shown: str | None = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            shown = await _connect(address, certificate_sha256, asker)
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


async def _connect(address: str, certificate_sha256: str | None, asker: str) -> str | None:
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None
    if context is not None and certificate_sha256 is not None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host = parts.hostname or ""
    connection = await _open(await _places(host, port, asker), port)
    name = host if secure else None
    _, writer = await asyncio.open_connection(sock=connection, ssl=context, server_hostname=name)
    try:
        shown = writer.get_extra_info("ssl_object")
        der = None if shown is None else shown.getpeercert(binary_form=True)
        return None if der is None else hashlib.sha256(der).hexdigest()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _open(places: list[str], port: int) -> socket.socket:
    """A connection to the first that takes one. Raises OSError: of the last."""
    last: OSError = OSError("a name of private addresses only")
    for place in places:
        family = socket.AF_INET6 if ":" in place else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, (place, port))
        except OSError as error:
            connection.close()
            last = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last


async def _places(host: str, port: int, asker: str) -> list[str]:
    """The addresses to connect to: looked up once, so that they are those that were judged.

    Raises:
        OSError: `socket.gaierror`.
    """
    if _is_address(host):
        return [host]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    places = [str(each[4][0]) for each in found]
    return [each for each in places if _is_private(asker) or not _is_private(each)]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_private(text: str) -> bool:
    """Whether an address is not one of the Internet's; what is no address is nobody's neighbour."""
    if not _is_address(text):
        return False
    found = ipaddress.ip_address(text.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return not (mapped or found).is_global
