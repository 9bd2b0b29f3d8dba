"""The process of the lab node: everything put together, started and stopped in order.

Owns: the state directory and its lock, the node's keys, the two doors, and signals. Must not: hold
a rule or a route.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import sqlite3
from collections import Counter
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.types import ASGIApp

from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.clock import Clock, SystemClock
from gpugoblin.errors import NodeError, SettingsError
from gpugoblin.wire.keys import load_or_make_key
from gpugoblin.wire.signing import public_key_bytes
from gpugoblin.wire.tls import TlsFiles, certificate_sha256, make_self_signed
from server_stub import logs
from server_stub.exposition import CountingApp
from server_stub.node import presence
from server_stub.node.coordinator_link import CoordinatorLink, SignedHttp
from server_stub.node.executors.ray_link import Link, RayLink, bridge_config
from server_stub.node.http import servers
from server_stub.node.http.clients import Clients, application
from server_stub.node.http.devices import Devices
from server_stub.node.http.repair import repair_routes
from server_stub.node.http.watch import Watch
from server_stub.node.idle import IdleWatch, has_unfinished_jobs
from server_stub.node.keeping import backup
from server_stub.node.node import Node
from server_stub.node.pool import PoolConfig, WorkerPool
from server_stub.node.settings import NodeSettings
from server_stub.node.state import blobs as references
from server_stub.node.state.words import Rules
from server_stub.node.store import migrations
from server_stub.node.store.sqlite import SqliteStore, connect
from server_stub.node.tickets import Tickets
from server_stub.node.validating.routes import validator_routes
from server_stub.node.web.site import site_routes
from server_stub.node.workrunner import Pool

__all__ = ["Service", "StateDir", "open_state", "pool_config", "serve", "tls_files"]

LOCK: Final = "node.lock"
METRICS_HOST: Final = "127.0.0.1"
PLACE_LOOK_S: Final = 1.0

log = logging.getLogger("gpugoblin.node")


@dataclass(frozen=True, slots=True)
class StateDir:
    """An open state directory: nobody else runs a node on it while `lock` is open."""

    settings: NodeSettings
    key: Ed25519PrivateKey
    lock: int

    def close(self) -> None:
        os.close(self.lock)

    def in_place(self) -> bool:
        """Whether the directory is still where it was opened."""
        try:
            found = os.stat(self.settings.state / LOCK)
        except OSError:
            return False
        return os.path.samestat(found, os.fstat(self.lock))


def open_state(settings: NodeSettings) -> StateDir:
    """Makes the directory and its keys where they are missing, and takes the lock.

    Raises:
        NodeError: `state_dir_taken`.
        SettingsError: `setting_invalid` when it cannot be made.
        WireError: `key_file_unreadable`.
    """
    try:
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.arrays_root.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(settings.state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        raise SettingsError(
            "setting_invalid", name="state_dir", value=settings.state,
            source="the configuration", reason=cause.strerror,
        ) from cause  # fmt: skip
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as cause:
        os.close(lock)
        raise NodeError("state_dir_taken", path=settings.state) from cause
    try:
        return StateDir(settings, load_or_make_key(settings.state / "node.key"), lock)
    except BaseException:
        os.close(lock)
        raise


def tls_files(settings: NodeSettings) -> TlsFiles:
    """The certificate that was given, or the node's own self-made one.

    Raises:
        WireError: `certificate_unreadable`.
    """
    if settings.tls_certificate:
        certificate = Path(settings.tls_certificate)
        return TlsFiles(certificate, Path(settings.tls_key), certificate_sha256(certificate))
    return make_self_signed(settings.state, settings.hostnames.split())


def pool_config(settings: NodeSettings) -> PoolConfig:
    """What the workers are started with."""
    return PoolConfig(
        state_dir=settings.state,
        blob_root=settings.blob_root,
        level=settings.engine_level,
        local=settings.local_engine,
        engine_threads=settings.engine_threads,
        engine_memory_bytes=settings.engine_memory_bytes,
        slot_bytes=settings.slot_bytes,
        check_workers=settings.check_workers,
        validators=settings.validators,
        reserve_bytes=settings.reserve_bytes,
    )


class Service:
    """One lab node with its doors, inside a running event loop. An async context manager.

    Args:
        pool, link: the workers, and the way to Ray; made from the settings when not given.
    """

    def __init__(
        self,
        state: StateDir,
        clock: Clock | None = None,
        pool: Pool | None = None,
        link: Link | None = None,
    ) -> None:
        self.state = state
        self.settings = state.settings
        self._clock = clock or SystemClock()
        self._pool = pool
        self._link = link
        self._stack = AsyncExitStack()
        self.tls: TlsFiles | None = None
        self.port = 0
        self.link: CoordinatorLink | None = None
        self._answers: Counter[str] = Counter()
        self.idle = IdleWatch(self._clock, self.settings.idle_exit_s)
        self.node: Node
        self.tickets: Tickets

    async def __aenter__(self) -> Service:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        settings = self.settings
        # Doors are bound first: a port in use is said before a worker is started.
        unix = servers.bind_unix(settings.socket_path)
        self._stack.callback(settings.socket_path.unlink, missing_ok=True)
        self._stack.callback(unix.close)
        tcp = None
        if settings.listen_port:
            tcp = servers.bind_tcp(settings.listen_host, settings.listen_port)
            self._stack.callback(tcp.close)
        await self._open_node()
        clients = Clients(self.node)
        watch = Watch(self.node, self.health, self._answers)
        limit = settings.max_connections
        app = application([*watch.routes(), *repair_routes(self.node), *clients.routes()])
        if settings.metrics_port:
            await self._open_metrics(watch)
        await self._open_door(servers.Door(self._front(app), unix, max_connections=limit))
        if tcp is not None:
            self.tls = await asyncio.to_thread(tls_files, settings)
            devices = Devices(self.node, self.tickets)
            pages = site_routes(self.node) if settings.pages else []
            judges = validator_routes(self.node, self.node.desk)
            routes = [*devices.routes(), *judges, *watch.routes(), *clients.routes(), *pages]
            front = devices.front(application(routes))
            door = servers.Door(
                self._front(front), tcp, (self.tls.certificate, self.tls.key), limit
            )
            self.port = door.port
            await self._open_door(door)
            # Questions of idle devices that are held are answered before the door waits for them.
            self._stack.callback(self.node.grid.stop)
            self._stack.callback(self.node.desk.stop)
        if settings.lab and settings.coordinator_address:
            await self._open_link()

    async def _open_node(self) -> None:
        settings = self.settings
        store = _open_store(settings)
        self._stack.callback(store.close)
        await asyncio.to_thread(backup.sweep, settings)
        blobs = await asyncio.to_thread(BlobStore, settings.blob_root, settings.reserve_bytes)
        await asyncio.to_thread(_sweep, blobs, await store.read(references.known))
        pool = self._pool
        if pool is None:
            made = WorkerPool(pool_config(settings))
            await made.start()
            self._stack.push_async_callback(made.stop)
            pool = made
        rules = Rules(catalog_hash=catalog_hash())
        link = self._link
        if link is None and "ray" in settings.executors:
            link = RayLink(bridge_config(settings, rules.catalog_hash))
        self.node = Node(settings, store, pool, blobs, self._clock, rules, self.state.key, link)
        key = bytes.fromhex(settings.coordinator_key) if settings.coordinator_key else None
        self.tickets = Tickets(self.state.key, settings.lab, key)
        self.node.in_place = self.state.in_place
        self._stack.push_async_callback(self.node.stop)
        await self.node.start()

    def _front(self, app: ASGIApp) -> ASGIApp:
        return self.idle.front(CountingApp(app, self._answers))

    async def _open_metrics(self, watch: Watch) -> None:
        listener = servers.bind_tcp(METRICS_HOST, self.settings.metrics_port)
        self._stack.callback(listener.close)
        routes = watch.routes(open_metrics=True)
        await self._open_door(servers.Door(application(routes), listener, max_connections=64))

    async def _open_door(self, door: servers.Door) -> None:
        self._stack.push_async_callback(door.close)
        await door.open()

    async def _open_link(self) -> None:
        settings = self.settings
        http = SignedHttp(
            settings.coordinator_address, settings.coordinator_certificate_sha256,
            self.state.key, self._clock.wall_s,
        )  # fmt: skip
        self.link = CoordinatorLink(self.node, self.tickets, http)
        self._stack.push_async_callback(self.link.stop)
        await self.link.start()

    def health(self) -> dict[str, Any]:
        """What anybody may know who reaches the node."""
        settings = self.settings
        return {
            "version": version("gpugoblin"),
            "lab": settings.lab,
            "state": "stopping" if self.node.draining else "running",
            "node_key": public_key_bytes(self.state.key).hex(),
            "certificate_sha256": self.tls.sha256 if self.tls else "",
            "catalog_hash": self.node.rules.catalog_hash,
            "local_engine": settings.local_engine,
            "confirmed_no_confidential_data": settings.confirmed_no_confidential_data,
            "coordinator": self.link.last_error or "reached" if self.link else "",
        }


def _open_store(settings: NodeSettings) -> SqliteStore:
    """The database. A new one is made only where there is nothing that an old one knew.

    Raises:
        NodeError: `database_missing`, `database_damaged`, `database_failed`, `database_newer`,
            `database_version`, `upgrade_failed`.
    """
    path = settings.database
    try:
        presence.refuse_if_lost(settings)
        _upgrade(path)
        return SqliteStore(path)
    except sqlite3.OperationalError as cause:
        raise NodeError("database_failed", reason=cause) from cause
    except sqlite3.DatabaseError as cause:
        raise NodeError("database_damaged", path=path, reason=cause) from cause


def _upgrade(path: Path) -> None:
    """An older database is brought to this version, after a copy was made beside it."""
    with closing(connect(path)) as connection:
        before, copy = migrations.upgrade(connection, path)
    if copy is not None:
        log.info("the database had version %s; as it was, it is kept at %s", before, copy)


def _sweep(blobs: BlobStore, known: frozenset[str]) -> None:
    """What a crash left, before there is anybody who writes blobs."""
    blobs.sweep()
    for blob in list(blobs.names()):
        if blob not in known:
            blobs.delete(blob)


class _Signals:
    """SIGTERM and SIGINT: the first asks to stop, the second to stop at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._came)

    def _came(self) -> None:
        (self.hurry if self.stop.is_set() else self.stop).set()


async def _until_end(service: Service, stop: asyncio.Event) -> None:
    """Waits for a signal, or until nobody uses the node any more.

    Raises:
        NodeError: `state_dir_moved`.
    """

    async def has_work() -> bool:
        return await service.node.store.read(has_unfinished_jobs)

    async def until_moved() -> None:
        while service.state.in_place():
            await asyncio.sleep(PLACE_LOOK_S)

    stopped = asyncio.ensure_future(stop.wait())
    idle = asyncio.ensure_future(service.idle.until_idle(has_work))
    moved = asyncio.ensure_future(until_moved())
    try:
        await asyncio.wait([stopped, idle, moved], return_when=asyncio.FIRST_COMPLETED)
        if moved.done():
            raise NodeError("state_dir_moved", path=service.settings.state)
        if idle.done():
            idle.result()
            log.info("nobody used the node for %g s", service.settings.idle_exit_s)
    finally:
        for waiting in (stopped, idle, moved):
            waiting.cancel()
        await asyncio.wait([stopped, idle, moved])


async def _drain(service: Service, hurry: asyncio.Event) -> None:
    """Lets end what is under way, for a bounded time and not after a second signal."""
    limit_s = service.settings.stop_wait_s
    draining = asyncio.ensure_future(service.node.drain(limit_s))
    hurried = asyncio.ensure_future(hurry.wait())
    await asyncio.wait([draining, hurried], return_when=asyncio.FIRST_COMPLETED)
    for waiting in (draining, hurried):
        waiting.cancel()
    ended, _ = await asyncio.gather(draining, hurried, return_exceptions=True)
    if ended is not True:
        log.info("what was under way goes on when the node is started again")


async def _serve(settings: NodeSettings) -> None:
    signals = _Signals(asyncio.get_running_loop())
    state = open_state(settings)
    try:
        async with Service(state) as service:
            log.info("listening on %s", settings.socket_path)
            if service.tls is not None:
                log.info(
                    "listening on https://%s:%s, certificate sha256 %s",
                    settings.listen_host, service.port, service.tls.sha256,
                )  # fmt: skip
            await _until_end(service, signals.stop)
            log.info("stopping")
            if signals.stop.is_set():
                await _drain(service, signals.hurry)
    finally:
        state.close()


def serve(settings: NodeSettings) -> None:
    """Runs a lab node until SIGINT or SIGTERM. Raises GoblinError when it cannot start, or cannot
    go on."""
    logs.configure(settings.log_format)
    # Requests to a pinned coordinator carry their own proof of identity.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    uvloop.run(_serve(settings))
