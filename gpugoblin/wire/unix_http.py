"""HTTP over a Unix socket, as an adapter of `requests`.

Owns: connecting to the socket, and who may listen there; everything else is urllib3's. Imports
`socket` names that only some systems have at the moment of use, so that this module loads anywhere.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Mapping
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

__all__ = ["UnixAdapter"]

_UCRED: Final = struct.Struct("3i")


class _UnixConnection(HTTPConnection):
    """One keep-alive connection; `socket_path` in place of host and port."""

    def __init__(self, *args: Any, socket_path: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self._socket_path = socket_path

    def _new_conn(self) -> socket.socket:
        connection = socket.socket(getattr(socket, "AF_UNIX"), socket.SOCK_STREAM)  # noqa: B009
        timeout = self.timeout if isinstance(self.timeout, int | float) else None
        connection.settimeout(timeout)
        try:
            connection.connect(self._socket_path)
        except TimeoutError as cause:
            connection.close()
            raise ConnectTimeoutError(self, str(cause)) from cause
        except OSError as cause:
            connection.close()
            raise NewConnectionError(self, cause.strerror or str(cause)) from cause
        reason = _stranger(connection, self._socket_path)
        if reason:
            connection.close()
            raise NewConnectionError(self, reason)
        return connection


def _stranger(connection: socket.socket, path: str) -> str:
    """Why whoever listens must not be talked to; "" when it may be.

    It must run as us, as root, or as the owner of a directory in which nobody else can put a socket
    in its place. Systems that do not tell who listens are taken at the file's word.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return ""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    _, listener, _ = _UCRED.unpack(packed)
    if listener in (0, os.geteuid()):
        return ""
    try:
        place = os.stat(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        return error.strerror or str(error)
    if listener == place.st_uid and not place.st_mode & stat.S_IWOTH:
        return ""
    return (
        f"user {listener} listens there, who is neither you nor root nor the owner of a directory "
        "that is closed to others"
    )


class _UnixPool(HTTPConnectionPool):
    ConnectionCls = _UnixConnection


class UnixAdapter(HTTPAdapter):
    """Sends every request of its mount point through one Unix socket."""

    def __init__(self, socket_path: str, connections: int) -> None:
        super().__init__()
        self._pool = _UnixPool(
            "localhost", maxsize=connections, block=False, socket_path=socket_path
        )

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: bool | str | None,
        proxies: Mapping[str, str] | None = None,
        cert: tuple[str, str] | str | None = None,
    ) -> HTTPConnectionPool:
        return self._pool

    def request_url(
        self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None
    ) -> str:
        return request.path_url

    def close(self) -> None:
        self._pool.close()
        super().close()
