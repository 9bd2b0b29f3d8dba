"""A node out of its backup: on any machine, at any path.

Owns: the check of every file before anything is used, and the change of what depends on the place.
The directory gets its name when everything is in it, so a restore that was killed leaves no node.
Must not: touch a place that holds something.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gpugoblin.blobs.chunk import BlobHasher
from gpugoblin.blobs.files import durable_write, io_errors, require_space, sync_directory
from gpugoblin.errors import NodeError
from gpugoblin.units import MIB
from server_stub import sqlite_files
from server_stub.node import settings as node_settings
from server_stub.node.keeping import backup as backups
from server_stub.node.keeping.listing import File, Heading, private_directory, read
from server_stub.node.settings_file import filled
from server_stub.node.state import places
from server_stub.node.store import migrations
from server_stub.node.store.sqlite import connect, migrate

__all__ = ["Restored", "restore"]

PIECE_BYTES: Final = 4 * MIB
NODE_LOCK: Final = "node.lock"
"""Made by the first start of a node; in no backup."""
PENDING: Final = "restore.pending"
"""Says that the configuration is not written yet, by the heading of the backup."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored. `damaged`: blobs that were damaged when the backup was made."""

    state: Path
    files: int
    nbytes: int
    unfinished: int
    damaged: tuple[str, ...]


def restore(source: Path, config: Path, state: Path | None) -> Restored:
    """Makes configuration and state directory out of a backup.

    Args:
        config: where the configuration is written.
        state: the new state directory; None: where it was.

    Raises:
        NodeError: `backup_incomplete`, `backup_damaged`, `restore_target_taken`,
            `database_version`.
        StoreError: `disk_full`, `disk_failed`.
    """
    heading, files = read(source)
    place = Path(heading.state_dir) if state is None else state.absolute()
    if not config.exists() and _is_pending(place, heading):
        shutil.rmtree(place)  # of a restore that was killed before it could write the configuration
    for taken in (config, place):
        if taken.is_file() or (taken.is_dir() and any(taken.iterdir())):
            raise NodeError("restore_target_taken", path=taken)
    partial = place.with_name(f".{place.name}.restoring")
    with io_errors(partial):
        if partial.exists():
            shutil.rmtree(partial)  # of a restore that was killed
        partial.mkdir(mode=0o700, parents=True)
    try:
        require_space(partial, sum(file.nbytes for file in files))
        for file in files:
            _take(source, file, partial)
        unfinished = _check_database(source, partial / backups.DATABASE)
        text = _configuration(source, partial, place)
        durable_write(partial / PENDING, msgspec.json.encode(heading))
        with io_errors(place):
            if place.exists():
                place.rmdir()
            partial.rename(place)
            sync_directory(place.parent)
            config.parent.mkdir(parents=True, exist_ok=True)
        durable_write(config, text.encode())
        node_settings.load(config)
        (place / PENDING).unlink()
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return _summary(heading, files, place, unfinished)


def _is_pending(place: Path, heading: Heading) -> bool:
    """Whether it is this backup's node, which has no configuration yet and was never run."""
    try:
        same = (place / PENDING).read_bytes() == msgspec.json.encode(heading)
    except OSError:
        return False
    return same and not (place / NODE_LOCK).exists()


def _summary(heading: Heading, files: list[File], place: Path, unfinished: int) -> Restored:
    nbytes = sum(file.nbytes for file in files)
    return Restored(place, len(files), nbytes, unfinished, heading.damaged)


def _take(source: Path, file: File, partial: Path) -> None:
    """Copies one file and checks it; a blob gets its list of chunks back."""
    is_blob = file.path.startswith("blobs/")
    place = partial / ("blobs/" + file.path if is_blob else file.path)
    with io_errors(place, file.nbytes):
        private_directory(partial, place.parent)
    digest, hasher, nbytes = hashlib.sha256(), BlobHasher(), 0
    try:
        opened = (source / file.path).open("rb", buffering=0)
    except OSError as cause:
        raise _damaged(source, file, cause.strerror or str(cause)) from cause
    buffer = memoryview(bytearray(PIECE_BYTES))
    with opened, io_errors(place, file.nbytes):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(place, flags, 0o600)
        try:
            while got := opened.readinto(buffer):
                piece = buffer[:got]
                digest.update(piece)
                if is_blob:
                    hasher.update(piece)
                while piece:
                    piece = piece[os.write(descriptor, piece) :]
                nbytes += got
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if nbytes != file.nbytes:
        raise _damaged(source, file, f"it has {nbytes} bytes instead of {file.nbytes}")
    if digest.hexdigest() != file.sha256:
        raise _damaged(source, file, "its hash differs")
    if is_blob:
        manifest = hasher.manifest()
        packed = nbytes.to_bytes(8, "little") + bytes.fromhex("".join(manifest.chunks))
        durable_write(place.with_name(f"{place.name}.chunks"), packed)


def _check_database(source: Path, path: Path) -> int:
    """How many jobs go on. Brings the copy to this program's schema."""
    try:
        with contextlib.closing(connect(path)) as connection:
            reason = sqlite_files.fault(connection)
            if reason:
                raise NodeError("backup_damaged", file=backups.DATABASE, path=source, reason=reason)
            _, copy = migrations.upgrade(connection, path)
            if copy is not None:
                copy.unlink()  # the backup is the copy
            migrate(connection)
            connection.execute("insert or replace into meta values(?, ?)", (places.RESTORED, "1"))
            found = connection.execute("select count(*) from job where state = 'running'")
            return int(found.fetchone()[0])
    except sqlite3.DatabaseError as cause:
        raise NodeError(
            "backup_damaged", file=backups.DATABASE, path=source, reason=cause
        ) from cause


def _configuration(source: Path, partial: Path, place: Path) -> str:
    """The backup's configuration, for the new place."""
    copied = partial / backups.CONFIGURATION
    if not copied.exists():
        raise NodeError("backup_incomplete", path=source, reason="it has no configuration")
    values: dict[str, object] = {"state_dir": str(place)}
    if (partial / backups.GIVEN_CERTIFICATE).exists():
        values["tls_certificate"] = str(place / backups.GIVEN_CERTIFICATE)
        values["tls_key"] = str(place / backups.GIVEN_KEY)
    text = filled(copied.read_text(encoding="utf-8"), values)
    copied.unlink()
    (partial / "arrays").mkdir(mode=0o700, exist_ok=True)
    return text


def _damaged(source: Path, file: File, reason: str) -> NodeError:
    return NodeError("backup_damaged", file=file.path, path=source, reason=reason)
