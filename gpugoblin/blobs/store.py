"""Blobs on disk, named by their content.

Owns: the directory `root` with `blobs/xx/NAME` (the bytes), `blobs/xx/NAME.chunks` (the digests)
and `parts/` (what is not complete yet). Must not: decide who may read or for how long blobs live.

A blob is listed only after its bytes, its chunk list, its names and their directory are synced; the
chunk list is renamed first, the bytes last, so a name that exists has a chunk list. Whatever a
crash leaves in `parts/` is either an upload, which goes on, or swept away at the next start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpugoblin.blobs.chunk import (
    CHUNK_BYTES,
    BlobHasher,
    BlobManifest,
    check_manifest,
    check_name,
    chunk_digest,
)
from gpugoblin.blobs.files import (
    durable_write,
    io_errors,
    pread_exact,
    pwrite_all,
    require_space,
    sync_directory,
)
from gpugoblin.blobs.upload import Upload, UploadProgress
from gpugoblin.errors import StoreError
from gpugoblin.hashing import Buffer
from gpugoblin.ids import BlobHash, fresh_id

__all__ = ["BlobReader", "BlobStore", "BlobWriter"]


class BlobStore:
    """A content-addressed store. Several processes may use one root at the same time.

    Args:
        root: made with mode 0700 when it is not there.
        reserve_bytes: space that the store leaves free on its disk.
    """

    def __init__(self, root: Path | str, reserve_bytes: int = 64 * 1024 * 1024) -> None:
        self.root = Path(root)
        self.reserve_bytes = reserve_bytes
        self._blobs = self.root / "blobs"
        self._parts = self.root / "parts"
        with io_errors(self.root):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._blobs.mkdir(mode=0o700, exist_ok=True)
            self._parts.mkdir(mode=0o700, exist_ok=True)

    def sweep(self) -> int:
        """Deletes leftovers of writers that died; uploads stay. Only for the store's one owner."""
        dead = [*self._parts.glob("*.writing"), *self._blobs.glob("??/.*.part")]
        dead += [c for c in self._blobs.glob("??/*.chunks") if not c.with_suffix("").exists()]
        for part in dead:
            part.unlink(missing_ok=True)
        return len(dead)

    def path(self, blob: str) -> Path:
        """Where the bytes of a blob are or would be."""
        name = check_name(blob)
        return self._blobs / name[:2] / name

    def _chunks_path(self, blob: str) -> Path:
        place = self.path(blob)
        return place.with_name(f"{place.name}.chunks")

    def has(self, blob: str) -> bool:
        """Whether the blob is complete and durable here."""
        return self.path(blob).exists()

    def names(self) -> Iterator[BlobHash]:
        """All blobs, in no order."""
        for place in self._blobs.glob("??/*"):
            if len(place.name) == 64:
                yield BlobHash(place.name)

    def nbytes(self, blob: str) -> int:
        """Size of a blob. Raises StoreError `blob_missing`."""
        try:
            return self.path(blob).stat().st_size
        except FileNotFoundError as cause:
            raise StoreError("blob_missing", blob=blob) from cause

    def manifest(self, blob: str) -> BlobManifest:
        """The chunk list of a blob.

        Raises:
            StoreError: `blob_missing`, `manifest_malformed`, `blob_truncated`.
        """
        size = self.nbytes(blob)
        with io_errors(self._chunks_path(blob)):
            try:
                packed = self._chunks_path(blob).read_bytes()
            except FileNotFoundError as cause:
                raise StoreError("manifest_malformed", blob=blob) from cause
        if len(packed) < 8 or len(packed) % 32 != 8:
            raise StoreError("manifest_malformed", blob=blob)
        nbytes = int.from_bytes(packed[:8], "little")
        chunks = [packed[at : at + 32].hex() for at in range(8, len(packed), 32)]
        manifest = check_manifest(blob, nbytes, chunks)
        if size != nbytes:
            raise StoreError("blob_truncated", blob=blob, size=size, expected=nbytes)
        return manifest

    def writer(self, expected_bytes: int = 0) -> BlobWriter:
        """A fresh blob, written from the front; its name comes from what was written.

        Raises:
            StoreError: `disk_full` when `expected_bytes` would not fit.
        """
        require_space(self.root, expected_bytes, self.reserve_bytes)
        return BlobWriter(self, self._parts / f"{fresh_id('blob')}.writing")

    def put(self, data: Buffer) -> BlobHash:
        """Stores one buffer; durable on return."""
        return self.put_stream([data], memoryview(data).nbytes).blob

    def put_stream(self, pieces: Iterable[Buffer], expected_bytes: int = 0) -> BlobManifest:
        """Stores the concatenated pieces; durable on return."""
        with self.writer(expected_bytes) as writer:
            for piece in pieces:
                writer.write(piece)
            return writer.finish()

    def upload(self, key: str, nbytes: int) -> Upload:
        """Begins or resumes the upload of `nbytes` bytes that the caller names `key`.

        Raises:
            StoreError: `disk_full`, `blob_name_malformed` for a key that is no plain word.
        """
        if not (key.replace("_", "").replace("-", "").isalnum() and key.isascii()):
            raise StoreError("blob_name_malformed", name=key[:80])
        upload = Upload(self._parts / f"{key}.upload", nbytes)
        require_space(self.root, nbytes - upload.progress().stored_bytes, self.reserve_bytes)
        return upload

    def upload_progress(self, key: str, nbytes: int) -> UploadProgress:
        """How many bytes of an upload are safely on disk."""
        return self.upload(key, nbytes).progress()

    def finish_upload(self, key: str, nbytes: int, blob: str | None = None) -> BlobManifest:
        """Hashes a complete upload and makes it a blob. Idempotent by content.

        Raises:
            StoreError: `upload_incomplete`; `upload_mismatch` when it is not `blob` (the bytes are
                then thrown away).
        """
        if blob is not None and self.has(blob):
            self.discard_upload(key)
            return self.manifest(blob)
        part = self.upload(key, nbytes).complete_path()
        hasher = BlobHasher()
        with io_errors(part):
            descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
            try:
                buffer = memoryview(bytearray(min(CHUNK_BYTES, max(nbytes, 1))))
                for start in range(0, nbytes, CHUNK_BYTES):
                    got = pread_exact(descriptor, buffer[: min(CHUNK_BYTES, nbytes - start)], start)
                    hasher.update(buffer[:got])
            finally:
                os.close(descriptor)
        manifest = hasher.manifest()
        if blob is not None and manifest.blob != blob:
            self.discard_upload(key)
            raise StoreError("upload_mismatch", found=manifest.blob, blob=blob)
        self.adopt(part, manifest)
        return manifest

    def uploads(self) -> Iterator[str]:
        """The keys of all uploads that were begun and not finished, in no order."""
        for part in self._parts.glob("*.upload"):
            yield part.stem

    def discard_upload(self, key: str) -> None:
        """Forgets an upload and its bytes."""
        (self._parts / f"{key}.upload").unlink(missing_ok=True)

    def adopt(self, part: Path, manifest: BlobManifest) -> None:
        """Makes a synced file of `parts/` a blob: chunk list, bytes, directories, in this order."""
        place = self.path(manifest.blob)
        packed = manifest.nbytes.to_bytes(8, "little")
        packed += b"".join(bytes.fromhex(chunk) for chunk in manifest.chunks)
        with io_errors(place, manifest.nbytes):
            fresh = not place.parent.exists()
            place.parent.mkdir(mode=0o700, exist_ok=True)
            if fresh:
                sync_directory(self._blobs)
            with _alone(place.parent):
                durable_write(self._chunks_path(manifest.blob), packed)
                os.rename(part, place)
            sync_directory(place.parent)

    def open_read(self, blob: str) -> BlobReader:
        """A reader that verifies each chunk. Raises as `manifest` does."""
        manifest = self.manifest(blob)
        with io_errors(self.path(blob)):
            descriptor = os.open(self.path(blob), os.O_RDONLY | os.O_CLOEXEC)
        return BlobReader(descriptor, manifest)

    def delete(self, blob: str) -> bool:
        """Deletes a blob, bytes first; False when it was not there."""
        place = self.path(blob)
        try:
            with _alone(place.parent):
                place.unlink()
                self._chunks_path(blob).unlink(missing_ok=True)
        except FileNotFoundError:
            return False
        return True


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keeps other processes from storing and deleting in a directory of blobs.

    Without it, one that deletes a blob while another stores the same bytes again would leave bytes
    without their chunk list.
    """
    import fcntl  # Windows has no store.

    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class BlobWriter:
    """A blob in the making. A context manager: what is not finished is removed."""

    def __init__(self, store: BlobStore, part: Path) -> None:
        self._store = store
        self._part = part
        self._hasher = BlobHasher()
        with io_errors(part):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(part, flags, 0o600)

    def write(self, data: Buffer) -> None:
        """Appends bytes. Raises StoreError `disk_full`, `disk_failed`."""
        view = memoryview(data).cast("B")
        with io_errors(self._part, view.nbytes):
            pwrite_all(self._descriptor, view, self._hasher.nbytes)
        self._hasher.update(view)

    def finish(self) -> BlobManifest:
        """Syncs and names the blob; durable on return."""
        with io_errors(self._part, self._hasher.nbytes):
            os.fsync(self._descriptor)
        manifest = self._hasher.manifest()
        self._store.adopt(self._part, manifest)
        return manifest

    def close(self) -> None:
        """Closes; removes what was not finished."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        with suppress(FileNotFoundError):
            self._part.unlink()

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlobReader:
    """Reads a blob chunk by chunk and checks every chunk that it touches."""

    def __init__(self, descriptor: int, manifest: BlobManifest) -> None:
        self._descriptor = descriptor
        self.manifest = manifest

    @property
    def nbytes(self) -> int:
        return self.manifest.nbytes

    def read_chunk(self, number: int, target: memoryview) -> memoryview:
        """Reads chunk `number` into the front of `target` and returns that part.

        Raises:
            StoreError: `blob_damaged`, `blob_truncated`, `disk_failed`.
        """
        blob = self.manifest.blob
        start = number * CHUNK_BYTES
        size = min(CHUNK_BYTES, self.manifest.nbytes - start)
        part = target[:size]
        with io_errors(f"blob {blob}"):
            got = pread_exact(self._descriptor, part, start)
        if got != size:
            raise StoreError(
                "blob_truncated", blob=blob, size=start + got, expected=self.manifest.nbytes
            )
        if chunk_digest(part) != self.manifest.chunks[number]:
            raise StoreError("blob_damaged", blob=blob, chunk=number)
        return part

    def read_into(self, target: memoryview) -> None:
        """Reads the whole blob into `target`, which must have room for it."""
        for number in range(len(self.manifest.chunks)):
            self.read_chunk(number, target[number * CHUNK_BYTES :])

    def pieces(self) -> Iterator[memoryview]:
        """The chunks in order, each valid until the next one."""
        buffer = memoryview(bytearray(min(CHUNK_BYTES, max(1, self.nbytes))))
        for number in range(len(self.manifest.chunks)):
            yield self.read_chunk(number, buffer)

    def read(self) -> bytes:
        """The whole blob, for small ones."""
        return b"".join(bytes(piece) for piece in self.pieces())

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> BlobReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
