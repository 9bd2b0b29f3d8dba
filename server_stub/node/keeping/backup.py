"""A copy of a whole node while it runs: database, blobs, arrays, keys, certificate, configuration.

Owns: the order that makes it consistent. Under the database's write lock, for as long as it takes
to make links, every blob and array that a row names is linked into a directory beside the store,
and a reader's view of the database is begun. From then on the node may change and delete what it
wants: the links keep the bytes, the view keeps the rows. A tile that is written into an array
after that moment is one that the view does not count as used.

Must not: write into the node's database, or keep anything of a backup that failed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from gpugoblin.blobs.chunk import BlobHasher
from gpugoblin.blobs.files import durable_write, free_bytes, sync_directory
from gpugoblin.errors import NodeError
from gpugoblin.units import MIB
from server_stub import sqlite_files
from server_stub.node.keeping.listing import (
    FORMAT,
    LIST_NAME,
    File,
    Heading,
    private_directory,
    write,
)
from server_stub.node.settings import NodeSettings
from server_stub.node.store.sqlite import connect

__all__ = ["Made", "backup", "sweep"]

STAGING: Final = "backup.staging"
LOCK: Final = "backup.lock"
PIECE_BYTES: Final = 4 * MIB
SPARE_BYTES: Final = MIB
"""For the list and the file system's own needs."""

KEYS: Final = ("node.key", "tls.key", "tls.crt")
CONFIGURATION: Final = "node.toml"
DATABASE: Final = "node.sqlite"
GIVEN_CERTIFICATE: Final = "given.crt"
GIVEN_KEY: Final = "given.key"


@dataclass(frozen=True, slots=True)
class Made:
    """What a backup holds. `damaged` blobs are left out of it."""

    files: int
    nbytes: int
    damaged: tuple[str, ...]


def backup(settings: NodeSettings, config: Path, target: Path) -> Made:
    """Copies the node into `target`, whether it runs or not.

    Raises:
        NodeError: `backup_target_taken`, `backup_target_full`, `backup_failed`, `backup_busy`,
            `database_missing`, `database_damaged`.
    """
    _check_target(settings, target)
    if not settings.database.exists():
        raise NodeError("database_missing", path=settings.database, arrays=settings.arrays_root)
    with _alone(settings):
        staging = settings.state / STAGING
        _sweep(staging)
        made_directory = not target.exists()
        try:
            with _snapshot(settings, staging) as view:
                _require_room(settings, staging, target)
                return _Copy(settings, config, target).make(view, staging)
        except BaseException as error:
            _empty(target, whole=made_directory)
            _reraise(error, settings, target)
            raise
        finally:
            _sweep(staging)


def sweep(settings: NodeSettings) -> None:
    """Deletes the links of a backup that was killed; nothing while one is being made."""
    if (settings.state / STAGING).exists():
        with contextlib.suppress(NodeError), _alone(settings):
            _sweep(settings.state / STAGING)


def _check_target(settings: NodeSettings, target: Path) -> None:
    def refuse(reason: str) -> NodeError:
        return NodeError("backup_target_taken", path=target, reason=reason)

    if target.resolve().is_relative_to(settings.state.resolve()):
        raise refuse("it lies in the node's own directory")
    if target.exists() and not target.is_dir():
        raise refuse("it is no directory")
    if target.exists() and any(target.iterdir()):
        raise refuse("it is not empty")
    if not target.exists() and not target.parent.is_dir():
        raise refuse(f"there is no directory {target.parent}")


@contextlib.contextmanager
def _alone(settings: NodeSettings) -> Iterator[None]:
    descriptor = os.open(settings.state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            raise NodeError("backup_busy", path=settings.state) from cause
        yield
    finally:
        os.close(descriptor)


def _sweep(staging: Path) -> None:
    if staging.exists():
        shutil.rmtree(staging)


@contextlib.contextmanager
def _snapshot(settings: NodeSettings, staging: Path) -> Iterator[sqlite3.Connection]:
    """Links everything that rows name, and yields a view of exactly those rows."""
    with (
        contextlib.closing(connect(settings.database)) as writer,
        contextlib.closing(connect(settings.database, read_only=True)) as view,
    ):
        (staging / "blobs").mkdir(mode=0o700, parents=True)
        (staging / "arrays").mkdir(mode=0o700)
        writer.execute("begin immediate")  # no blob loses its last reference from here on
        try:
            for (blob,) in writer.execute("select hash from blob where refs > 0"):
                source = settings.blob_root / "blobs" / blob[:2] / blob
                with contextlib.suppress(FileNotFoundError):  # `damaged` says so
                    os.link(source, staging / "blobs" / blob)
            for path, final in writer.execute("select path, final_path from array where ours = 1"):
                _link_array(settings, staging, (path, final))
            view.execute("begin")
            view.execute("select 1 from meta").fetchall()
        finally:
            writer.execute("rollback")
        yield view


def _link_array(settings: NodeSettings, staging: Path, names: tuple[str, str]) -> None:
    """Under the name of its row, which it may have left for its final one a moment ago."""
    for name in filter(None, names):
        place = settings.arrays_root / Path(name).name
        if place.is_file():
            os.link(place, staging / "arrays" / Path(names[0] or name).name)
            return


def _require_room(settings: NodeSettings, staging: Path, target: Path) -> None:
    needed = settings.database.stat().st_size + SPARE_BYTES
    needed += sum(each.stat().st_size for each in staging.rglob("*") if each.is_file())
    free = free_bytes(target)
    if needed > free:
        raise NodeError("backup_target_full", path=target, needed_bytes=needed, free_bytes=free)


class _Copy:
    """One backup in the making."""

    def __init__(self, settings: NodeSettings, config: Path, target: Path) -> None:
        self._settings = settings
        self._config = config
        self._target = target
        self._files: list[File] = []
        self._damaged: list[str] = []

    def make(self, view: sqlite3.Connection, staging: Path) -> Made:
        target, settings = self._target, self._settings
        target.mkdir(mode=0o700, exist_ok=True)
        target.chmod(0o700)
        sqlite_files.copy_pages(view, target / DATABASE)
        self._note(target / DATABASE)
        schema = view.execute("select value from meta where key = 'schema_version'").fetchone()[0]
        self._blobs(view, staging / "blobs")
        for array in sorted((staging / "arrays").iterdir()):
            self._file(array, f"arrays/{array.name}")
        self._file(self._config, CONFIGURATION)
        for name in KEYS:
            if (settings.state / name).exists():
                self._file(settings.state / name, name)
        if settings.tls_certificate:
            self._file(Path(settings.tls_certificate), GIVEN_CERTIFICATE)
            self._file(Path(settings.tls_key), GIVEN_KEY)
        heading = Heading(
            FORMAT, version("gpugoblin"), schema, time.time(), str(settings.state), settings.lab,
            tuple(self._damaged[:100]),
        )  # fmt: skip
        for folder in [path for path in target.rglob("*") if path.is_dir()]:
            sync_directory(folder)
        durable_write(target / LIST_NAME, write(heading, self._files))
        nbytes = sum(file.nbytes for file in self._files)
        return Made(len(self._files), nbytes, tuple(self._damaged))

    def _blobs(self, view: sqlite3.Connection, linked: Path) -> None:
        for (blob,) in view.execute("select hash from blob where refs > 0 order by hash"):
            hasher = BlobHasher()
            copied = f"blobs/{blob[:2]}/{blob}"
            try:
                file = self._file(linked / blob, copied, hasher.update)
            except FileNotFoundError:
                self._damaged.append(blob)
                continue
            if hasher.manifest().blob != blob:
                (self._target / file.path).unlink()
                self._files.pop()
                self._damaged.append(blob)

    def _file(
        self, source: Path, path: str, also: Callable[[memoryview], None] | None = None
    ) -> File:
        """Copies one file, hashing on the way; durable on return."""
        place = self._target / path
        private_directory(self._target, place.parent)
        digest = hashlib.sha256()
        nbytes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        buffer = memoryview(bytearray(PIECE_BYTES))
        with source.open("rb", buffering=0) as opened:
            descriptor = os.open(place, flags, 0o600)
            try:
                while got := opened.readinto(buffer):
                    piece = buffer[:got]
                    digest.update(piece)
                    if also is not None:
                        also(piece)
                    while piece:
                        piece = piece[os.write(descriptor, piece) :]
                    nbytes += got
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        file = File(path, nbytes, digest.hexdigest())
        self._files.append(file)
        return file

    def _note(self, place: Path) -> None:
        with place.open("rb+") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        path = place.relative_to(self._target)
        self._files.append(File(str(path), place.stat().st_size, digest))


def _empty(target: Path, *, whole: bool) -> None:
    """Takes back what was written: the directory too if it was made here."""
    if whole:
        shutil.rmtree(target, ignore_errors=True)
        return
    for path in target.iterdir() if target.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _reraise(error: BaseException, settings: NodeSettings, target: Path) -> None:
    """Raises the words of ours for an error of the system's; else returns."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or (isinstance(error, sqlite3.OperationalError) and "full" in str(error)):
        raise NodeError(
            "backup_target_full", path=target, needed_bytes="more", free_bytes=free_bytes(target)
        ) from error
    if isinstance(error, sqlite3.DatabaseError):
        raise NodeError("database_damaged", path=settings.database, reason=error) from error
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        raise NodeError("backup_failed", path=error.filename or target, reason=reason) from error
