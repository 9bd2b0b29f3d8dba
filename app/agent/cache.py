"""The bounded cache of blobs on a contributor's disk, encrypted, gone with its grant.

Owns: the files, their keys, what is pinned, what is thrown out. Must not: fetch anything; give out
a byte whose chunk was not verified before it was stored.

Each grant has a key of its own (AES-256-GCM, one nonce a chunk) that exists only in this process's
memory. So after a kill nobody can read what is left, not even this program: it is deleted at the
next start, and when the grant ends. File names are serial numbers; which blob lies in which file is
known to this process alone.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gpugoblin.blobs.chunk import CHUNK_BYTES, BlobManifest, chunk_digest
from gpugoblin.blobs.files import pread_exact
from gpugoblin.errors import AgentError
from gpugoblin.ids import BlobHash, GrantId, LeaseId

__all__ = ["BlobCache"]

TAG_BYTES: Final = 16
BLOCK_BYTES: Final = 4096
"""A file takes at least this much of a disk, however small its blob is."""

_STRIDE_BYTES: Final = CHUNK_BYTES + TAG_BYTES


@dataclass(slots=True)
class _Entry:
    """One blob of one grant. `serial` is unique in this process, so a nonce is never used twice."""

    manifest: BlobManifest
    serial: int
    path: Path
    missing: set[int]
    pins: set[LeaseId] = field(default_factory=set)

    @property
    def stored_bytes(self) -> int:
        size = self.manifest.nbytes + TAG_BYTES * len(self.manifest.chunks)
        return max(1, -(-size // BLOCK_BYTES)) * BLOCK_BYTES

    def size_of(self, chunk: int) -> int:
        return min(CHUNK_BYTES, self.manifest.nbytes - chunk * CHUNK_BYTES)

    def nonce(self, chunk: int) -> bytes:
        return self.serial.to_bytes(4, "big") + chunk.to_bytes(8, "big")

    def associated(self, chunk: int) -> bytes:
        return bytes.fromhex(self.manifest.blob) + chunk.to_bytes(8, "big")


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


class BlobCache:
    """Blobs by grant and hash. Safe to use from several threads.

    Args:
        directory: emptied here: what an earlier process left cannot be read any more.
        limit_bytes: of all blobs together, of all grants.
        least_free_bytes: the disk is never filled beyond this.
        free_bytes: how much room the disk of a directory has; a parameter for tests.

    Raises:
        AgentError: `cache_failed`: the directory cannot be emptied or made.
    """

    def __init__(
        self,
        directory: Path,
        limit_bytes: int,
        least_free_bytes: int,
        free_bytes: Callable[[Path], int] = _free_bytes,
    ) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._least_free_bytes = least_free_bytes
        self._free_bytes = free_bytes
        self._lock = threading.RLock()
        self._keys: dict[GrantId, AESGCM] = {}
        self._entries: OrderedDict[tuple[GrantId, BlobHash], _Entry] = OrderedDict()
        self._serial = 0
        self._used_bytes = 0
        self._rooms: list[bytearray] = []
        self.discarded_bytes = _emptied(directory)

    @property
    def used_bytes(self) -> int:
        """What the blobs may take on the disk, those that are still arriving included."""
        return self._used_bytes

    def open_grant(self, grant: GrantId) -> None:
        """Makes the key of a grant; one that is open already keeps its key."""
        with self._lock:
            if grant not in self._keys:
                self._keys[grant] = AESGCM(AESGCM.generate_key(256))

    def close_grant(self, grant: GrantId) -> None:
        """Forgets the key of a grant and deletes its files."""
        with self._lock:
            self._keys.pop(grant, None)
            for key in [key for key in self._entries if key[0] == grant]:
                self._remove(key)

    def close(self) -> None:
        """Closes every grant."""
        with self._lock:
            for grant in list(self._keys):
                self.close_grant(grant)

    def begin(self, grant: GrantId, manifest: BlobManifest) -> None:
        """Makes room for a blob; one that is there, in whole or in part, is kept.

        Raises:
            AgentError: `grant_closed`, `cache_full`, `disk_floor`.
        """
        with self._lock:
            self._key(grant)
            key = (grant, manifest.blob)
            if key in self._entries:
                self._entries.move_to_end(key)
                return
            self._serial += 1
            path = self._directory / str(self._serial)
            entry = _Entry(manifest, self._serial, path, set(range(len(manifest.chunks))))
            self._make_room(entry.stored_bytes)
            path.touch(mode=0o600)
            self._entries[key] = entry
            self._used_bytes += entry.stored_bytes

    def missing(self, grant: GrantId, blob: BlobHash) -> list[int] | None:
        """Numbers of the chunks that are not there yet, in order; None: the blob is unknown."""
        with self._lock:
            entry = self._entries.get((grant, blob))
            return None if entry is None else sorted(entry.missing)

    def manifest(self, grant: GrantId, blob: BlobHash) -> BlobManifest | None:
        """The chunk list of a blob that was begun."""
        with self._lock:
            entry = self._entries.get((grant, blob))
            return None if entry is None else entry.manifest

    def put(self, grant: GrantId, blob: BlobHash, chunk: int, data: memoryview) -> None:
        """Verifies a chunk, encrypts it and writes it.

        Raises:
            AgentError: `blob_is_false` (the bytes are not those of the manifest; nothing is
                kept), `blob_unknown`, `grant_closed`, `disk_floor`, `cache_failed`.
        """
        with self._lock:
            entry, key = self._entry(grant, blob), self._key(grant)
        if data.nbytes != entry.size_of(chunk) or (
            chunk_digest(data) != entry.manifest.chunks[chunk]
        ):
            raise AgentError("blob_is_false", blob=blob, chunk=chunk)
        with self._room() as room:
            sealed = room[: data.nbytes + TAG_BYTES]
            _seal_into(key, entry, chunk, data, sealed)
            self._write(entry, chunk, sealed)
        with self._lock:
            entry.missing.discard(chunk)

    def _write(self, entry: _Entry, chunk: int, sealed: memoryview) -> None:
        try:
            with entry.path.open("r+b", buffering=0) as file:
                written = os.pwrite(file.fileno(), sealed, chunk * _STRIDE_BYTES)
        except FileNotFoundError as cause:  # its grant ended while it was on its way
            raise AgentError("blob_unknown", blob=entry.manifest.blob) from cause
        except OSError as cause:
            raise AgentError("cache_failed", path=entry.path, reason=cause.strerror) from cause
        if written != sealed.nbytes:
            raise AgentError("cache_failed", path=entry.path, reason="the disk is full")

    @contextmanager
    def _room(self) -> Iterator[memoryview]:
        """Room for one sealed chunk, used again: fresh memory costs as much as the encryption."""
        with self._lock:
            room = self._rooms.pop() if self._rooms else bytearray(_STRIDE_BYTES)
        with memoryview(room) as view:
            yield view
        with self._lock:
            self._rooms.append(room)

    def read_into(self, grant: GrantId, blob: BlobHash, target: memoryview) -> None:
        """Decrypts a whole blob into `target`, chunk by chunk, without another copy.

        Raises:
            AgentError: `blob_unknown` (not there, or not whole), `cache_damaged`, `grant_closed`.
        """
        with self._lock:
            entry, key = self._entry(grant, blob), self._key(grant)
            if entry.missing or target.nbytes != entry.manifest.nbytes:
                raise AgentError("blob_unknown", blob=blob)
            self._entries.move_to_end((grant, blob))
        try:
            with entry.path.open("rb", buffering=0) as file, self._room() as room:
                for chunk in range(len(entry.manifest.chunks)):
                    start = chunk * CHUNK_BYTES
                    size = entry.size_of(chunk)
                    sealed = room[: size + TAG_BYTES]
                    got = pread_exact(file.fileno(), sealed, chunk * _STRIDE_BYTES)
                    _open_into(key, entry, chunk, sealed[:got], target[start : start + size])
        except (OSError, InvalidTag, ValueError) as cause:
            with self._lock:
                self._remove((grant, blob))
            raise AgentError("cache_damaged", blob=blob) from cause

    def pin(self, grant: GrantId, blob: BlobHash, lease: LeaseId) -> None:
        """Keeps a blob from being thrown out until `unpin`. Raises AgentError `blob_unknown`."""
        with self._lock:
            self._entry(grant, blob).pins.add(lease)

    def unpin(self, lease: LeaseId) -> None:
        """Takes the pins of a lease off all blobs; they stay as long as there is room."""
        with self._lock:
            for entry in self._entries.values():
                entry.pins.discard(lease)

    def _key(self, grant: GrantId) -> AESGCM:
        key = self._keys.get(grant)
        if key is None:
            raise AgentError("grant_closed", grant=grant)
        return key

    def _entry(self, grant: GrantId, blob: BlobHash) -> _Entry:
        entry = self._entries.get((grant, blob))
        if entry is None:
            raise AgentError("blob_unknown", blob=blob)
        return entry

    def _make_room(self, needed_bytes: int) -> None:
        """Throws out the blobs that were used longest ago, until `needed_bytes` more fit."""
        if needed_bytes > self._limit_bytes:
            raise AgentError("cache_full", needed_bytes=needed_bytes, limit_bytes=self._limit_bytes)
        while True:
            is_full = self.used_bytes + needed_bytes > self._limit_bytes
            free_bytes = self._free_bytes(self._directory)
            is_low = free_bytes - needed_bytes < self._least_free_bytes
            if not is_full and not is_low:
                return
            oldest = next((key for key, entry in self._entries.items() if not entry.pins), None)
            if oldest is not None:
                self._remove(oldest)
            elif is_full:
                raise AgentError(
                    "cache_full", needed_bytes=needed_bytes, limit_bytes=self._limit_bytes
                )
            else:
                raise AgentError(
                    "disk_floor",
                    path=self._directory,
                    free_bytes=free_bytes,
                    least_free_bytes=self._least_free_bytes,
                )

    def _remove(self, key: tuple[GrantId, BlobHash]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._used_bytes -= entry.stored_bytes
            entry.path.unlink(missing_ok=True)


def _seal_into(
    key: AESGCM, entry: _Entry, chunk: int, data: memoryview, sealed: memoryview
) -> None:
    encrypt_into = getattr(key, "encrypt_into", None)
    if encrypt_into is not None:
        encrypt_into(entry.nonce(chunk), data, entry.associated(chunk), sealed)
    else:  # cryptography before 47
        sealed[:] = key.encrypt(entry.nonce(chunk), data, entry.associated(chunk))


def _open_into(
    key: AESGCM, entry: _Entry, chunk: int, sealed: memoryview, target: memoryview
) -> None:
    decrypt_into = getattr(key, "decrypt_into", None)
    if decrypt_into is not None:
        decrypt_into(entry.nonce(chunk), sealed, entry.associated(chunk), target)
    else:  # cryptography before 47
        target[:] = key.decrypt(entry.nonce(chunk), sealed, entry.associated(chunk))


def _emptied(directory: Path) -> int:
    """Deletes what an earlier process left; returns its size in bytes."""
    found_bytes = 0
    try:
        if directory.exists():
            found = [each for each in directory.iterdir() if each.is_file()]
            found_bytes = sum(each.lstat().st_size for each in found)
            shutil.rmtree(directory)
        directory.mkdir(mode=0o700, parents=True)
    except OSError as cause:
        raise AgentError("cache_failed", path=directory, reason=cause.strerror) from cause
    return found_bytes
