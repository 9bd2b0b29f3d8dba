"""One HTTPS connection to a coordinator or a lab node: signed, pinned, bounded.

Owns: how a request is sent and its reply read. Must not: know what a message means, repeat anything
by itself, or believe what it reads: a reply that is too long, cut off, redirected or no HTTP at all
is an AgentError and nothing else. One thread uses a link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.exceptions import HTTPError

from gpugoblin.clock import Clock
from gpugoblin.errors import AgentError
from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.remote import MAX_ERROR_BYTES, remote_error
from gpugoblin.wire.signing import sign_request

__all__ = ["Link", "Peer", "PeerRefusal"]

CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 30.0
PIECE_BYTES: Final = 256 * 1024
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_UNPRINTABLE: Final = re.compile(r"[^ -~]+")


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom a link talks to.

    Args:
        name: `coordinator` or `lab node`, for messages to people.
        certificate_sha256: the only proof of identity if given (no authority is asked then).

    Raises:
        AgentError: `address_refused`.
    """

    name: str
    address: str
    certificate_sha256: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        reason = ""
        if parts.scheme not in ("http", "https") or not parts.hostname:
            reason = "it is not of the form https://host:port"
        elif parts.path.strip("/") or parts.query or parts.fragment or parts.username:
            reason = "only scheme, host and port belong there"
        elif parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            reason = "it would be neither encrypted nor pinned"
        if reason:
            raise AgentError("address_refused", address=_printable(self.address), reason=reason)


class PeerRefusal(AgentError):
    """The other side understood and said no. `refusal` is its code, `status` the HTTP status."""

    def __init__(self, peer: str, request: str, status: int, refusal: str, **said: str) -> None:
        super().__init__("peer_refused", peer=peer, request=request, refusal=refusal, **said)
        self.status = status
        self.refusal = refusal
        self.retry_after_s: float | None = None
        self.remote_fields: dict[str, object] = {}

    def __reduce__(self) -> tuple[object, ...]:
        said = {name: str(self.fields[name]) for name in ("said", "advice")}
        return (
            _refusal,
            (
                str(self.fields["peer"]),
                str(self.fields["request"]),
                self.status,
                self.refusal,
                said,
            ),
        )


def _refusal(
    peer: str, request: str, status: int, refusal: str, said: dict[str, str]
) -> PeerRefusal:
    return PeerRefusal(peer, request, status, refusal, **said)


class Link:
    """A keep-alive connection. Every request is signed with the device's key."""

    def __init__(self, peer: Peer, key: Ed25519PrivateKey, clock: Clock) -> None:
        self.peer = peer
        self._key = key
        self._clock = clock
        self._base = peer.address.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False  # no .netrc
        self._session.proxies.update(_proxies(self._base))
        self._session.headers.clear()
        self._session.headers.update({"Accept-Encoding": "identity", "User-Agent": "gpugoblin"})
        if peer.certificate_sha256:
            self._session.mount("https://", PinnedAdapter(peer.certificate_sha256, 1))
            self._session.verify = False  # urllib3 checks the fingerprint instead

    def close(self) -> None:
        """Closes the connection, even while an error's traceback still holds on to it."""
        for adapter in self._session.adapters.values():
            if not isinstance(adapter, HTTPAdapter):
                continue
            for manager in (adapter.poolmanager, *adapter.proxy_manager.values()):
                for key in list(manager.pools.keys()):
                    manager.pools[key].close()
        self._session.close()

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> bytes:
        """Sends one request and reads its whole reply.

        Args:
            path: with its query, exactly as it is to be sent and signed.
            max_bytes: of the reply; one that is longer is not read on.

        Raises:
            PeerRefusal: a reply of status 400 or more that says why.
            AgentError: `peer_away`, `peer_silent`, `peer_untrusted`, `peer_unexpected`.
        """
        with self._reply(method, path, body, headers, timeout_s) as reply:
            request = f"{method} {path}"
            data = _read(reply, max_bytes)
            if data is None:
                raise self._unexpected(request, f"more than {max_bytes} bytes")
            return data

    def stream(
        self,
        path: str,
        start: int,
        target: memoryview,
        *,
        headers: Mapping[str, str],
        goes_on: Callable[[int], bool],
    ) -> None:
        """Fills `target` with the bytes from `start` on of a resource.

        Args:
            goes_on: told how many bytes are there, after each piece; False ends the request.

        Raises:
            as `call`; a reply of another range or length is `peer_unexpected`.
        """
        request = f"GET {path}"
        stop = start + target.nbytes
        wanted = {**headers, "Range": f"bytes={start}-{stop - 1}"}
        with self._reply("GET", path, b"", wanted, READ_TIMEOUT_S) as reply:
            said = reply.headers.get("Content-Range", "")
            if reply.status_code != 206 or not said.startswith(f"bytes {start}-{stop - 1}/"):
                raise self._unexpected(request, "another range than was asked for")
            position = 0
            for piece in reply.iter_content(PIECE_BYTES):
                if position + len(piece) > target.nbytes:
                    raise self._unexpected(request, "more bytes than were asked for")
                target[position : position + len(piece)] = piece
                position += len(piece)
                if not goes_on(position):
                    return
            if position != target.nbytes:
                raise self._unexpected(request, f"{position} of {target.nbytes} bytes")

    @contextmanager
    def _reply(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        timeout_s: float,
    ) -> Iterator[requests.Response]:
        request = f"{method} {path}"
        signed = sign_request(self._key, method, path, body, self._clock.wall_s())
        kind = "application/octet-stream" if method == "PUT" else "application/json"
        try:
            with self._session.request(
                method,
                self._base + path,
                data=body or None,
                headers={**signed, "Content-Type": kind, **(headers or {})},
                timeout=(CONNECT_TIMEOUT_S, timeout_s),
                stream=True,
                allow_redirects=False,
            ) as reply:
                if reply.status_code >= 300:
                    raise self._refused(request, reply)
                yield reply
        except (requests.RequestException, HTTPError, OSError) as cause:
            if isinstance(cause, AgentError):
                raise
            raise self._explained(cause, request, timeout_s) from cause

    def _refused(self, request: str, reply: requests.Response) -> AgentError:
        body = _read(reply, MAX_ERROR_BYTES)
        error = None if body is None else remote_error(reply.status_code, body)
        if error is None:
            return self._unexpected(request, f"status {reply.status_code} without a reason")
        refusal = PeerRefusal(
            self.peer.name,
            request,
            reply.status_code,
            _printable(error.code),
            said=_printable(error.what),
            advice=_printable(error.next_step) or "The agent decides by itself what to do.",
        )
        refusal.remote_fields = dict(error.fields)
        after = reply.headers.get("Retry-After", "")
        if after.isascii() and after.isdigit() and len(after) < 6:
            refusal.retry_after_s = float(after)
        return refusal

    def _unexpected(self, request: str, reason: str) -> AgentError:
        return AgentError(
            "peer_unexpected",
            peer=self.peer.name,
            address=self.peer.address,
            request=request,
            reason=reason,
        )

    def _explained(self, cause: Exception, request: str, timeout_s: float) -> AgentError:
        peer, address = self.peer.name, self.peer.address
        if isinstance(cause, requests.exceptions.ProxyError):
            proxy = urlsplit(self._session.proxies.get("https", ""))
            place = f"{proxy.hostname}:{proxy.port}"  # without the name and the password in it
            return AgentError(
                "proxy_refused", peer=peer, address=address, proxy=place, reason=_plain(cause)
            )
        if isinstance(cause, requests.exceptions.SSLError):
            return AgentError("peer_untrusted", peer=peer, address=address, reason=_plain(cause))
        if isinstance(cause, requests.ReadTimeout) or "timed out" in str(cause).lower():
            return AgentError(
                "peer_silent", peer=peer, address=address, request=request, timeout_s=timeout_s
            )
        return AgentError("peer_away", peer=peer, address=address, reason=_plain(cause))


def _proxies(address: str) -> dict[str, str]:
    """The proxy that the environment names (`https_proxy`, `no_proxy`), where there is a way for
    one: TLS goes through it to the peer, so that it sees names of hosts and nothing more. What is
    on this machine, and alone may speak without TLS, is asked directly."""
    parts = urlsplit(address)
    if parts.scheme != "https" or parts.hostname in _LOOPBACK:
        return {}
    found = get_environ_proxies(address)
    proxy = found.get("https") or found.get("all")
    return {"https": proxy} if proxy else {}


def _read(reply: requests.Response, max_bytes: int) -> bytes | None:
    """The body; None when it is longer than `max_bytes`."""
    sink = bytearray()
    for piece in reply.iter_content(PIECE_BYTES):
        if len(sink) + len(piece) > max_bytes:
            return None
        sink += piece
    return bytes(sink)


def _printable(text: str) -> str:
    """Text from outside, fit for a terminal: printable ASCII, at most 300 characters."""
    return _UNPRINTABLE.sub("?", text)[:300]


def _plain(cause: BaseException) -> str:
    """The innermost and plainest sentence of a nest of network errors."""
    seen: list[BaseException] = []
    current: BaseException | None = cause
    while current is not None and current not in seen:
        seen.append(current)
        inner = getattr(current, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in current.args if isinstance(arg, BaseException)), None)
        current = inner
    text = str(seen[-1]).rsplit("Failed to establish a new connection: ", 1)[-1]
    return _printable(text.rstrip(".")) or type(seen[-1]).__name__
