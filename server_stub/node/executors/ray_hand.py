"""What runs on a machine of the lab's Ray cluster: a pool of workers behind an actor's methods.

Owns: the workers of one Ray machine (engine, validator, checks), the blobs that were carried to it,
and their bound. Must not: import ray (the bridge makes an actor of `Hand`), or take anything but
bytes, texts and numbers: nothing of ours is pickled beyond them.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from gpugoblin.blobs.store import BlobStore, BlobWriter
from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.errors import GoblinError, NodeError, StoreError
from gpugoblin.graph.dtypes import EVERY_DTYPE
from server_stub.node.executors.ray_words import BridgeConfig, Seat
from server_stub.node.pool import PoolConfig, WorkerPool
from server_stub.node.work import Check, Compare, Compute, Computed, Recompute, Reply, Work
from server_stub.node.workers.frames import LENGTH, decode_work, encode_frame, failed

__all__ = ["PIECE_BYTES", "Hand", "inputs_of"]

PIECE_BYTES: Final = 8 * 2**20
_MARKER_BYTES: Final = 128


def inputs_of(work: Work) -> dict[str, int]:
    """The blobs that an item reads, with their sizes."""
    blobs = list(work.inputs) if isinstance(work, (Compute, Recompute, Check, Compare)) else []
    if isinstance(work, (Check, Recompute)):
        blobs += work.committed
    if isinstance(work, Compare):
        blobs += [*work.first, *work.second]
    named: dict[str, int] = {}
    for one in blobs:
        if not hasattr(one, "nbytes"):
            raise NodeError("ray_item_refused", work=work.work)
        named[one.blob] = one.nbytes
    return named


class Hand:
    """The engine and the checks of one Ray machine. Its methods are called over Ray.

    Args:
        config: a `BridgeConfig`, as JSON.
        machine: Ray's id of this machine.
        processors: what Ray gave the actor.
        marker: what the node's marker file holds.
    """

    def __init__(self, config: bytes, machine: str, processors: int, marker: str) -> None:
        self._config = msgspec.json.decode(config, type=BridgeConfig)
        self._machine = machine
        self._threads = self._config.threads or max(1, processors)
        self._marker = marker
        self._place = _place(self._config.worker_dir) / machine[:16]
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._shares = self._sees_disk()
        root = Path(self._config.blob_root) if self._shares else self._place / "blobs"
        self._store = BlobStore(root, self._config.reserve_bytes)
        if not self._shares:
            self._store.sweep()
        self._kept: OrderedDict[str, int] = OrderedDict()
        if not self._shares:
            self._kept = OrderedDict((name, self._store.nbytes(name)) for name in
                                     list(self._store.names()))  # fmt: skip
        self._used: dict[str, int] = {}
        self._writers: dict[str, tuple[BlobWriter, int]] = {}
        self._pool: WorkerPool | None = None

    def _sees_disk(self) -> bool:
        try:
            with Path(self._config.marker).open(encoding="ascii") as file:
                seen = file.read(_MARKER_BYTES)
        except (OSError, ValueError):
            return False
        return seen == self._marker and os.access(self._config.blob_root, os.W_OK)

    async def hello(self) -> bytes:
        """Starts the workers; a `Seat`, as JSON, or an error's code and fields."""
        config = self._config
        found = (version("gpugoblin"), catalog_hash())
        if found != (config.version, config.catalog_hash):
            error = NodeError(
                "ray_worker_differs", host=os.uname().nodename, found=found[0],
                wanted=config.version,
            )  # fmt: skip
            return msgspec.json.encode({"code": error.code, "fields": error.fields})
        if self._pool is None:
            pool = WorkerPool(
                PoolConfig(
                    state_dir=self._place,
                    blob_root=self._store.root,
                    level=config.level,  # type: ignore[arg-type] # the node's settings allow these words only
                    engine_threads=self._threads,
                    engine_memory_bytes=config.memory_bytes,
                    slot_bytes=config.slot_bytes,
                    reserve_bytes=config.reserve_bytes,
                )
            )
            await pool.start()
            self._pool = pool
        return msgspec.json.encode(
            Seat(
                self._machine, os.uname().nodename, self._threads, config.memory_bytes,
                config.slot_bytes, EVERY_DTYPE.mask(), self._shares, _marks(),
            )
        )  # fmt: skip

    async def ping(self) -> int:
        """Its process id: proof that it lives."""
        return os.getpid()

    async def missing(self, named: dict[str, int]) -> list[str]:
        """Which of these blobs are not here. They are kept until `release` names them."""
        for blob in named:
            self._used[blob] = self._used.get(blob, 0) + 1
            if blob in self._kept:
                self._kept.move_to_end(blob)
        return [blob for blob in named if not self._store.has(blob)]

    async def put(self, blob: str, nbytes: int, offset: int, piece: bytes) -> bool:
        """The next piece of a blob; True when it is whole and is what its name says."""
        if offset == 0:
            self._make_room(nbytes)
            self._abort(blob)
            self._writers[blob] = (self._store.writer(nbytes), 0)
        writer, written = self._writers.get(blob, (None, 0))
        if writer is None or written != offset or len(piece) > PIECE_BYTES:
            raise StoreError("blob_missing", blob=blob)
        writer.write(piece)
        if offset + len(piece) < nbytes:
            self._writers[blob] = (writer, offset + len(piece))
            return False
        found = writer.finish()
        self._abort(blob)
        if found.blob != blob:
            self._store.delete(found.blob)
            raise StoreError("blob_damaged", blob=blob, chunk=0)
        self._kept[blob] = nbytes
        return True

    def _abort(self, blob: str) -> None:
        writer, _ = self._writers.pop(blob, (None, 0))
        if writer is not None:
            writer.close()

    def _make_room(self, nbytes: int) -> None:
        """Lets the blobs go that were not used for longest."""
        total = sum(self._kept.values())
        for blob in list(self._kept):
            if total + nbytes <= self._config.cache_bytes:
                return
            if not self._used.get(blob):
                total -= self._kept.pop(blob)
                with suppress(GoblinError):
                    self._store.delete(blob)

    async def run(self, frame: bytes) -> bytes:
        """Does an item. The answer is a frame's body: a `Reply`, also where it failed.

        What it stored is kept until `release` names it.
        """
        item = decode_work(frame)
        try:
            if self._pool is None:
                raise NodeError("ray_item_refused", work=item.work)
            reply: Reply = await self._pool.run(item)
            if isinstance(reply, Computed) and not self._shares:
                for blob, nbytes in zip(reply.output_blobs, reply.output_nbytes, strict=True):
                    self._kept[blob] = nbytes
                    self._used[blob] = self._used.get(blob, 0) + 1
        except GoblinError as error:
            reply = failed(item.work, error)
        return encode_frame(reply)[LENGTH.size :]

    async def release(self, blobs: list[str]) -> None:
        """These may go when room is needed: an item that read or made them has ended."""
        for blob in blobs:
            left = self._used.get(blob, 0) - 1
            if left > 0:
                self._used[blob] = left
            else:
                self._used.pop(blob, None)

    async def piece(self, blob: str, offset: int) -> bytes:
        """A part of a blob that was made here."""
        descriptor = os.open(self._store.path(blob), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, PIECE_BYTES, offset)
        finally:
            os.close(descriptor)

    async def stop(self) -> None:
        """Ends the workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.stop()


def _marks() -> tuple[str, ...]:
    """What tells that this is the same computer: where Ray was started twice, in containers of one
    kernel, or after a change of the name or a restart."""
    found = [f"name:{os.uname().nodename}"[:128]]
    for file in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        with suppress(OSError, ValueError):
            text = Path(file).read_text(encoding="ascii").strip()[:64]
            if text:
                found.append(f"{Path(file).name}:{text}")
    return tuple(found)


def _place(wanted: str) -> Path:
    if wanted:
        return Path(wanted)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "gpugoblin" / "ray"
