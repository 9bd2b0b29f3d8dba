"""The HTTP client of the house: keep-alive, pinned, bounded, with time-outs.

Owns: how a request reaches a lab node (Unix socket, or HTTPS with a token and a pinned
certificate) and how its reply is read: never more bytes than the message allows, and again only
where repeating cannot do a thing twice. Must not: know what a job or an array is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, NewConnectionError

from gpugoblin.errors import ClientError, WireError
from gpugoblin.wire.codec import decode, encode, message_type
from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.remote import MAX_ERROR_BYTES, remote_error
from gpugoblin.wire.unix_http import UnixAdapter

__all__ = ["Endpoint", "Transport"]

T = TypeVar("T", bound=msgspec.Struct)

CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 60.0
PIECE_BYTES: Final = 256 * 1024
BACKOFF_S: Final = (0.1, 0.4, 1.6)
"""Pauses before the second, third and fourth try of a request that may be repeated."""
TRY_LATER: Final = frozenset({502, 503, 504})
CONNECTIONS: Final = 8
_PREFIX: Final = re.compile(r"^[\w<. ]*Connection\w*\(.*?\): ")
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a node is and how to know that it is the right one.

    Args:
        address: `https://host:port`, `http://localhost:port` or `unix:/path`.
        token: bearer token; empty over a Unix socket, where the system says who is calling.
        certificate_sha256: 64 hexadecimal digits; the certificate must have this fingerprint, and
            no authority is asked. Empty: authorities decide.
        ca_file: PEM file of the only authorities to believe. Empty: the usual ones.
    """

    address: str
    token: str = field(default="", repr=False)
    certificate_sha256: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        if self.socket_path:
            return
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(
                "address_malformed", address=self.address, reason="neither https:// nor unix:"
            )
        if parts.query or parts.fragment or parts.username:
            raise ClientError(
                "address_malformed",
                address=self.address,
                reason="only scheme, host, port and path belong here",
            )
        if parts.scheme == "http" and self.token and parts.hostname not in LOOPBACK:
            raise ClientError("token_over_plain_http", address=self.address)

    @property
    def socket_path(self) -> str:
        """The path of the Unix socket; empty for an address with a host."""
        return self.address.removeprefix("unix:") if self.address.startswith("unix:") else ""


@dataclass(frozen=True, slots=True)
class _Request:
    """One request. `repeatable` None: as the method says."""

    method: str
    path: str
    data: bytes | None
    query: Mapping[str, str | int] | None
    read_timeout_s: float
    repeatable: bool | None
    content_type: str = "application/json"

    @property
    def may_repeat(self) -> bool:
        if self.repeatable is None:
            return self.method in ("GET", "PUT", "DELETE")
        return self.repeatable

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class _ClosingNow(HTTPAdapter):
    def close(self) -> None:
        """Closes the connections now; urllib3 alone would wait for the garbage collector."""
        pools = self.poolmanager.pools
        for key in pools.keys():  # noqa: SIM118 - not a dict, it refuses to be iterated
            pools[key].close()
        super().close()


class _Pinned(_ClosingNow, PinnedAdapter):
    """TLS to a server whose certificate is known."""


def _open_session(endpoint: Endpoint) -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # a .netrc would replace the token, a proxy variable the address
    session.headers.update({"Accept-Encoding": "identity", "User-Agent": "gpugoblin"})
    session.mount("http://", _ClosingNow(pool_maxsize=CONNECTIONS))
    session.mount(
        "https://",
        _Pinned(endpoint.certificate_sha256, CONNECTIONS)
        if endpoint.certificate_sha256
        else _ClosingNow(pool_maxsize=CONNECTIONS),
    )
    if endpoint.socket_path:
        session.mount("http://", UnixAdapter(endpoint.socket_path, CONNECTIONS))
    elif endpoint.certificate_sha256:
        session.verify = False  # the fingerprint is checked instead, by urllib3
    elif endpoint.ca_file:
        session.verify = endpoint.ca_file
    if endpoint.token:
        session.headers["Authorization"] = f"Bearer {endpoint.token}"
    return session


class Transport:
    """A keep-alive connection to one node. Safe to use from several threads; close when done.

    Args:
        endpoint: where to.
        sleep: waits between tries; a parameter so that tests do not wait.
        revive: called once a request when nobody listens; brings the node back, or raises.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        sleep: Callable[[float], None] = time.sleep,
        revive: Callable[[], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._revive = revive
        self._sleep = sleep
        self._session = _open_session(endpoint)
        self._base = "http://localhost" if endpoint.socket_path else endpoint.address.rstrip("/")

    def close(self) -> None:
        """Closes all connections."""
        self._session.close()

    def call(
        self,
        method: str,
        path: str,
        reply: type[T],
        *,
        body: msgspec.Struct | None = None,
        query: Mapping[str, str | int] | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
        repeatable: bool | None = None,
    ) -> T:
        """Sends a message (or nothing) and decodes the reply.

        Args:
            repeatable: whether doing it twice is the same as once. GET, PUT and DELETE are.

        Raises:
            RemoteError: what the node answered with a status of 400 or more.
            ClientError: `node_unreachable`, `node_silent`, `node_not_trusted`,
                `reply_unexpected`.
            WireError: `message_too_large`, `message_malformed`.
        """
        request = _Request(
            method, path, None if body is None else encode(body), query, read_timeout_s, repeatable
        )
        sink = bytearray()
        max_bytes = message_type(reply).max_bytes
        self._repeat(request, lambda response: _read_into(response, sink, max_bytes))
        return decode(reply, sink)

    def upload(
        self,
        path: str,
        data: bytes,
        reply: type[T],
        *,
        query: Mapping[str, str | int] | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> T:
        """PUTs raw bytes and decodes the reply. Raises as `call`."""
        request = _Request(
            "PUT", path, data, query, read_timeout_s, True, "application/octet-stream"
        )
        sink = bytearray()
        max_bytes = message_type(reply).max_bytes
        self._repeat(request, lambda response: _read_into(response, sink, max_bytes))
        return decode(reply, sink)

    def download(
        self,
        path: str,
        target: memoryview,
        *,
        query: Mapping[str, str | int] | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        """Fills `target` with exactly as many bytes as it has. Raises as `call`.

        Raises:
            ClientError: `reply_unexpected` when the node sends fewer or more.
        """
        request = _Request("GET", path, None, query, read_timeout_s, True)
        self._repeat(request, lambda response: _fill(response, target))

    def fetch(
        self,
        method: str,
        path: str,
        *,
        max_bytes: int,
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> bytes:
        """A reply that is no message, of at most `max_bytes`. Raises as `call`."""
        request = _Request(method, path, None, None, read_timeout_s, None)
        sink = bytearray()
        self._repeat(request, lambda response: _read_into(response, sink, max_bytes))
        return bytes(sink)

    def _repeat(self, request: _Request, consume: Callable[[requests.Response], None]) -> None:
        revive = self._revive
        for pause_s in (*BACKOFF_S, None):
            last = pause_s is None or not request.may_repeat
            try:
                self._once(request, consume, last)
                return
            except _TryLater:
                pass
            except (requests.RequestException, HTTPError) as cause:
                if revive is not None and _never_sent(cause):
                    revive()
                    revive = None
                    continue
                over = last and not (pause_s is not None and _never_sent(cause))
                if over or _is_distrust(cause):
                    raise self._explained(cause, request) from cause
            self._sleep(pause_s or 0.0)

    def _once(
        self, request: _Request, consume: Callable[[requests.Response], None], last: bool
    ) -> None:
        headers = {"Content-Type": request.content_type} if request.data is not None else {}
        with self._session.request(
            request.method,
            self._base + request.path,
            data=request.data,
            params=None if request.query is None else dict(request.query),
            headers=headers,
            timeout=(CONNECT_TIMEOUT_S, request.read_timeout_s),
            stream=True,
            allow_redirects=False,
        ) as response:
            if response.status_code >= 300:
                self._refuse(response, str(request), last)
            try:
                consume(response)
            except _WrongLength as cause:
                raise self._unexpected(str(request), str(cause)) from cause

    def _refuse(self, response: requests.Response, request: str, last: bool) -> None:
        body = bytearray()
        try:
            _read_into(response, body, MAX_ERROR_BYTES)
        except WireError:
            body.clear()
        error = remote_error(response.status_code, bytes(body))
        if response.status_code in TRY_LATER and not last:
            raise _TryLater(request) from error
        if error is not None:
            raise error
        raise self._unexpected(request, f"status {response.status_code} without an explanation")

    def _unexpected(self, request: str, reason: str) -> ClientError:
        return ClientError(
            "reply_unexpected", address=self.endpoint.address, request=request, reason=reason
        )

    def _explained(self, cause: Exception, request: _Request) -> ClientError:
        address = self.endpoint.address
        if _is_distrust(cause):
            return ClientError("node_not_trusted", address=address, reason=_innermost(cause))
        if isinstance(cause, requests.ReadTimeout) or "timed out" in str(cause).lower():
            return ClientError(
                "node_silent",
                address=address,
                request=str(request),
                timeout_s=f"{request.read_timeout_s:g}",
            )
        return ClientError("node_unreachable", address=address, reason=_innermost(cause))


class _TryLater(Exception):
    """The node is there and asks to come back: 502, 503 or 504."""


class _WrongLength(Exception):
    """A region's reply is not as long as the region."""


def _read_into(response: requests.Response, sink: bytearray, max_bytes: int) -> None:
    sink.clear()
    for piece in response.iter_content(PIECE_BYTES):
        if len(sink) + len(piece) > max_bytes:
            raise WireError(
                "message_too_large", message="reply", size=len(sink) + len(piece), limit=max_bytes
            )
        sink += piece


def _fill(response: requests.Response, target: memoryview) -> None:
    position = 0
    for piece in response.iter_content(PIECE_BYTES):
        if position + len(piece) > len(target):
            raise _WrongLength(f"more than the {len(target)} bytes that were asked for")
        target[position : position + len(piece)] = piece
        position += len(piece)
    if position != len(target):
        raise _WrongLength(f"{position} bytes where {len(target)} were asked for")


def _never_sent(cause: Exception) -> bool:
    """True when no connection came about, so that the node cannot have seen the request."""
    if isinstance(cause, requests.ConnectTimeout):
        return True
    return any(isinstance(inner, NewConnectionError) for inner in _chain(cause))


def _is_distrust(cause: Exception) -> bool:
    return isinstance(cause, requests.exceptions.SSLError)


def _chain(cause: BaseException) -> list[BaseException]:
    """An error and what is inside it, from the outermost to the innermost."""
    chain: list[BaseException] = []
    current: BaseException | None = cause
    while current is not None and current not in chain:
        chain.append(current)
        inner = getattr(current, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in current.args if isinstance(arg, BaseException)), None)
        current = inner
    return chain


def _innermost(cause: Exception) -> str:
    """The last and plainest sentence of a nest of network errors."""
    text = _PREFIX.sub("", str(_chain(cause)[-1]))
    return text.rsplit("Failed to establish a new connection: ", 1)[-1].rstrip(".")
