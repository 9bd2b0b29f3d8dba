"""The coordinator's process: socket, TLS, signals, a clean end.

Owns: the life of the server. SIGTERM and SIGINT end it after the requests that are under way;
whatever was answered is on disk, so SIGKILL loses nothing either.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import uvicorn

from gpugoblin.clock import SystemClock
from gpugoblin.errors import CoordinatorError, WireError
from gpugoblin.wire.entrance import GuardedServer
from gpugoblin.wire.guard import GuardedProtocol
from gpugoblin.wire.tls import TlsFiles
from server_stub.coordinator import databases
from server_stub.coordinator.app import make_app
from server_stub.coordinator.gate import Service
from server_stub.coordinator.mail.post import Post
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.state import open_house, tls_files

__all__ = ["serve"]

VERSION: Final = version("gpugoblin")
STOP_S: Final = 2
"""How long requests under way may take to finish after SIGTERM."""

_BACKLOG: Final = 2048


def serve(settings: Settings, ready: Callable[[str, TlsFiles | None], None]) -> None:
    """Serves until SIGTERM or SIGINT. `ready(address, tls)` is called once it listens.

    Raises:
        CoordinatorError: `coordinator_not_set_up`, `coordinator_port_in_use`,
            `coordinator_schema_newer`, `coordinator_database_*`.
        WireError: `key_file_unreadable`, `certificate_unreadable`.
    """
    house = open_house(settings)
    tls = tls_files(settings)
    with contextlib.closing(_listen(settings)) as listener:
        store = databases.open_store(settings)
        try:
            service = Service(house, store, SystemClock(), random.SystemRandom(), VERSION)
            config = uvicorn.Config(
                make_app(service),
                http=_protocol(settings),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=settings.max_connections,
                timeout_graceful_shutdown=STOP_S,
                ssl_certfile=tls.certificate if tls else None,
                ssl_keyfile=tls.key if tls else None,
            )
            _load_tls(config, tls)
            address = _address(listener, tls is not None)
            post = Post(settings, service.clock, service.transact) if settings.mail_host else None
            _Server(config, lambda: ready(address, tls), post).run(sockets=[listener])
        finally:
            store.close()


class _Server(GuardedServer):
    """uvicorn's server, which says when it listens and leaves signals to the event loop.

    Letters are sent beside it, on the same loop, as long as it serves.
    """

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], post: Post | None
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._post = post
        self._posting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._post is not None:
            self._posting = asyncio.create_task(self._post.run())
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._posting is not None:
            self._posting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._posting
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike the original, does not raise the signal again: we still have to close."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _protocol(settings: Settings) -> type[GuardedProtocol]:
    class Protocol(GuardedProtocol):
        proxies = frozenset(settings.trusted_proxies)

    return Protocol


def _load_tls(config: uvicorn.Config, tls: TlsFiles | None) -> None:
    try:
        config.load()
    except (OSError, ssl.SSLError) as cause:
        path: Path | str = tls.certificate if tls else "(none)"
        raise WireError("certificate_unreadable", path=path, reason=cause) from cause
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as cause:
        raise CoordinatorError(
            "coordinator_port_in_use", host=settings.host, port=settings.port, reason=cause
        ) from cause


def _address(listener: socket.socket, with_tls: bool) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if with_tls else 'http'}://{shown}:{port}"


logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
