"""The two doors of the node: a Unix socket and HTTPS, each a uvicorn server in one event loop.

Owns: binding, TLS, and the peer's user id on the Unix socket. Must not: know a route.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from gpugoblin.errors import NodeError, WireError
from gpugoblin.wire.entrance import GuardedServer
from gpugoblin.wire.guard import GuardedProtocol

__all__ = ["PEER", "Door", "bind_tcp", "bind_unix"]

PEER: Final = "unix-uid"
"""First half of `scope["client"]` on the Unix socket; the second is the peer's user id."""

BACKLOG: Final = 1024
GRACE_S: Final = 5
_UCRED: Final = struct.Struct("3i")


class _UnixProtocol(GuardedProtocol):
    """Asks the kernel who is at the other end of each connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        _, uid, _ = _UCRED.unpack(packed)
        self.client = (PEER, uid)


class _QuietServer(GuardedServer):
    """Leaves the process's signals to whoever runs several servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind_unix(path: Path) -> socket.socket:
    """Listens on a Unix socket that this user and group may open.

    Raises:
        NodeError: `address_in_use`: another process answers there, or the path is too long.
    """
    probe = socket.socket(socket.AF_UNIX)
    try:
        probe.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        pass
    except OSError as cause:
        raise NodeError("address_in_use", address=path, reason=cause) from cause
    else:
        raise NodeError("address_in_use", address=path, reason="another program answers there")
    finally:
        probe.close()
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        os.chmod(path, 0o660)
        listener.listen(BACKLOG)
    except OSError as cause:
        listener.close()
        raise NodeError("address_in_use", address=path, reason=cause) from cause
    return listener


def bind_tcp(host: str, port: int) -> socket.socket:
    """Listens on an address. Raises NodeError `address_in_use`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as cause:
        raise NodeError("address_in_use", address=f"{host}:{port}", reason=cause) from cause


class Door:
    """One listening server.

    Args:
        tls: certificate and key, for HTTPS.
        max_connections: newcomers beyond it are refused, those in their TLS handshake included;
            None: there is no limit.

    Raises:
        WireError: `certificate_unreadable`: certificate or key cannot be used.
    """

    def __init__(
        self, app: ASGIApp, listener: socket.socket, tls: tuple[Path, Path] | None = None,
        max_connections: int | None = None,
    ) -> None:  # fmt: skip
        unix = listener.family == socket.AF_UNIX
        options: dict[str, Any] = {}
        if tls is not None:
            options = {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}
        self._config = uvicorn.Config(
            app, http=_UnixProtocol if unix else GuardedProtocol, ws="none", lifespan="off",
            access_log=False, log_config=None, server_header=False, date_header=False,
            timeout_keep_alive=120, timeout_graceful_shutdown=GRACE_S, backlog=BACKLOG,
            proxy_headers=False, limit_concurrency=max_connections, **options,
        )  # fmt: skip
        try:
            self._config.load()
        except (OSError, ssl.SSLError) as cause:
            path = tls[0] if tls is not None else "(none)"
            raise WireError("certificate_unreadable", path=path, reason=cause) from cause
        if tls is not None and self._config.ssl is not None:
            self._config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
        self._server = _QuietServer(self._config)
        self._listener = listener
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that was bound; 0 for a Unix socket."""
        return 0 if self._listener.family == socket.AF_UNIX else self._listener.getsockname()[1]

    async def open(self) -> None:
        """Returns when requests are answered."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise NodeError("address_in_use", address="the listener", reason="it has closed")
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Lets requests end, at most a few seconds."""
        if self._task is not None:
            self._server.should_exit = True
            await self._task
        self._listener.close()
