"""Files that nobody needs: of ended jobs, and what a crash left behind, results that no row names
and uploads that nobody awaits.

Owns: finding and deleting them. Must not: delete what a row names, or anything in a researcher's
directory that does not have the form of a result's temporary name.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import StoreError
from server_stub.node import results
from server_stub.node.arrays import discard
from server_stub.node.settings import NodeSettings
from server_stub.node.state import arrays, ended, places, retention, room
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Store, Tx
from server_stub.node.work import ArrayFile

__all__ = [
    "Host",
    "discard_results",
    "drop_caches",
    "drop_parts",
    "drop_uploads",
    "forget",
    "make_room",
    "sweep",
]

T = TypeVar("T")

_TEMPORARY: Final = re.compile(r"\.(?P<name>.+)\.result_[a-z2-7]{26}")

log = logging.getLogger("gpugoblin.node")


class Host(Protocol):
    """What is asked of the node."""

    @property
    def store(self) -> Store: ...

    @property
    def blobs(self) -> BlobStore: ...

    @property
    def settings(self) -> NodeSettings: ...

    async def handle(self, handler: Callable[[Step], T]) -> T: ...

    async def persist(self, handler: Callable[[Step], T]) -> T: ...


async def sweep(host: Host) -> None:
    """Before anything else is done after a start: deletes what the last life left half made."""
    noted = await host.store.read(places.noted)
    known = await host.store.read(places.known)
    settled = await asyncio.to_thread(_sweep, host.settings.arrays_root, noted, known)
    await forget(host, *settled)
    await host.handle(room.forget_notes)
    await drop_uploads(host)


async def discard_results(host: Host, job: str) -> None:
    """Deletes the unfinished results of a job that has given them up."""
    rows = await host.store.read(lambda tx: arrays.of_job(tx, job))
    await asyncio.to_thread(results.discard, rows)
    await host.persist(lambda step: arrays.discarded(step, job))


async def make_room(host: Host) -> bool:
    """Gives up all caches, or where there is none, all that ended jobs keep; False when there is
    nothing of either."""
    if await drop_caches(host):
        return True

    def body(step: Step) -> list[str]:
        found = ended.kept_jobs(step.tx)
        for job in found:
            ended.give_up(step, job)
        return found

    given_up = await host.handle(body)
    for job in given_up:
        log.info("the disk is full: what was verified of the ended job %s is deleted", job)
        await discard_results(host, job)
    return bool(given_up)


async def drop_caches(
    host: Host, owner: str | None = None, limits: retention.Limits = retention.NOTHING
) -> bool:
    """Lets go of caches over the limits (by itself all), of one owner or of everybody; says
    whether there was one."""
    rows = await host.handle(lambda step: retention.collect(step, limits, owner))
    for row in rows:
        log.info("the cached result %s of the job %s is deleted", row.id, row.job)
    await asyncio.to_thread(results.discard, rows, finished=True)
    return bool(rows)


async def forget(host: Host, *notes: str) -> None:
    """Nothing is left beside the places of these notes; empty ones were never made."""

    def body(step: Step) -> None:
        for note in notes:
            places.drop(step, note)

    if any(notes):
        await host.handle(body)


def _sweep(
    arrays_root: Path, noted: Mapping[str, Sequence[str]], known: Collection[str]
) -> list[str]:
    for path in arrays_root.iterdir():
        if str(path) not in known:
            _delete(path)
    return [note for note, finals in noted.items() if all(_beside(f, known) for f in finals)]


def _beside(final: str, known: Collection[str]) -> bool:
    """Deletes the temporary results of one place; False when one could not be deleted."""
    place = Path(final)
    try:
        names = [path for path in place.parent.iterdir() if _is_temporary(path, place)]
    except OSError:
        return not place.parent.exists()
    return all([_delete(path) for path in names if str(path) not in known])


def _is_temporary(path: Path, place: Path) -> bool:
    form = _TEMPORARY.fullmatch(path.name)
    return form is not None and form["name"] == place.name


def _delete(path: Path) -> bool:
    try:
        discard(ArrayFile("zarr" if path.is_dir() else "raw", str(path), "bool", ()))
    except (StoreError, OSError) as error:
        log.warning("the leftover %s stays: %s", path, error)
        return False
    log.info("deleted %s, which an earlier life of this node left half made", path)
    return True


async def drop_uploads(host: Host) -> int:
    """Deletes parts of results whose leases have ended; returns how many."""
    keys = await asyncio.to_thread(lambda: list(host.blobs.uploads()))
    if not keys:
        return 0
    # A part is made for a committed lease only, so one that was listed before is safe to judge now.
    awaited = await host.store.read(_awaited)
    dead = [key for key in keys if key.rpartition("-")[0] not in awaited]
    for key in dead:
        await asyncio.to_thread(host.blobs.discard_upload, key)
    return len(dead)


async def drop_parts(host: Host, lease: str, outputs: int) -> None:
    """Deletes what is here of the outputs of a lease that has ended."""
    for slot in range(outputs):
        await asyncio.to_thread(host.blobs.discard_upload, f"{lease}-{slot}")


def _awaited(tx: Tx) -> frozenset[str]:
    return frozenset(row[0] for row in tx.rows("select id from lease where state = 'committed'"))
