"""Results whose files are gone: after a restore on another machine, or deleted by somebody.

Owns: seeing it before the job goes on or is called done, an empty file in the place of the old one,
and that all that was in it is computed again. Must not: touch a file that is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from msgspec import structs

from gpugoblin.blobs.files import io_errors
from gpugoblin.errors import NodeError, StoreError
from server_stub.node import arrays as files
from server_stub.node import leftovers, results
from server_stub.node.items import array_file
from server_stub.node.leftovers import Host
from server_stub.node.state import arrays, jobs, lost, places, tasks
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.state.lost import Lost
from server_stub.node.state.words import FinishJob, Step
from server_stub.node.store.protocol import Tx
from server_stub.node.work import ArrayFile, Box

__all__ = ["again", "look", "missing", "of_results", "settle"]

log = logging.getLogger("gpugoblin.node")


async def look(host: Host) -> None:
    """At the start, before anything is written: what is gone of unfinished results.

    Only of the node's own files, and after a restore, is it known that they will not come back.
    Where a researcher's disk is only not mounted, the job ends and keeps what was verified.
    """
    restored = await host.store.read(places.is_restored)
    for job in await host.store.read(jobs.running):
        try:
            gone = await missing(host, job)
        except StoreError as error:  # the job says so, if the disk does not recover
            log.warning("%s", error)
            continue
        await settle(host, job, gone, restored=restored)
    if restored:
        await host.handle(places.forget_restored)


async def settle(host: Host, job: str, gone: Sequence[ArrayRow], *, restored: bool = False) -> bool:
    """What comes of a job without these results; False where there are none of them."""
    theirs = [row for row in gone if not row.ours]
    if theirs and not restored:
        error = NodeError("result_gone", path=theirs[0].path)
        await host.persist(lambda step: jobs.fail(step, job, error.code, None, str(error)))
    elif gone:
        await again(host, job, gone)
    return bool(gone)


async def missing(host: Host, job: str) -> list[ArrayRow]:
    """Results of a job that are neither under their temporary names nor, where all tasks are used,
    with every verified byte under their final ones.

    Raises:
        StoreError: `disk_failed`.
    """
    rows = await host.store.read(lambda tx: arrays.of_job(tx, job))
    gone = await asyncio.to_thread(_gone, rows)
    if not gone or not await host.store.read(lambda tx: _is_used(tx, job)):
        return gone
    parts = await host.store.read(lambda tx: {row.id: _parts(tx, row) for row in gone})
    return await asyncio.to_thread(
        lambda: [row for row in gone if not _is_published(row, parts[row.id])]
    )


async def of_results(host: Host, named: Iterable[tuple[int, int]]) -> list[Lost]:
    """Files that are gone among those with these outputs (task, slot).

    Raises:
        StoreError: `disk_failed`.
    """
    outputs = frozenset(named)
    found: list[Lost] = []
    for job, rows in (await host.store.read(lambda tx: _with(tx, outputs))).items():
        gone = await asyncio.to_thread(_gone, rows)
        if gone:
            found += await again(host, job, gone)
    return found


async def again(host: Host, job: str, rows: Sequence[ArrayRow]) -> list[Lost]:
    """Makes these results of a job anew, and has what was in them computed again. A job for whose
    result no file can be made fails with the cause."""
    finals = [row.final_path for row in rows if not row.ours]
    note = await host.handle(lambda step: places.note(step, finals))
    tile = await host.store.read(lambda tx: jobs.info(tx, job).plan.tile)
    try:
        made = await asyncio.to_thread(results.remake, rows, tile)
    except StoreError as error:
        await leftovers.forget(host, note)
        code, text = error.code, str(error)
        await host.persist(lambda step: jobs.fail(step, job, code, None, text))
        return [Lost(job, 0, text)]

    def begin(step: Step) -> list[Lost] | None:
        places.drop(step, note)
        return _begin(step, job, rows, made)

    found = await host.persist(begin)
    if found is None:  # it has ended meanwhile
        for file in made:
            await asyncio.to_thread(files.discard, file)
        return []
    for row in rows:
        log.warning("the result %s of job %s is gone; it is computed again", row.path, job)
    return found


def _begin(
    step: Step, job: str, rows: Sequence[ArrayRow], made: Sequence[ArrayFile]
) -> list[Lost] | None:
    state = step.tx.one("select state from job where id = ?", (job,))
    if state is None or state[0] not in ("running", "done"):
        return None
    outputs: list[tuple[int, int]] = []
    for row, file in zip(rows, made, strict=True):
        arrays.moved(step, row.id, file.path, file.member, file.offset_bytes)
        outputs += step.tx.rows(
            "select task, slot from fold where job = ? and array = ?", (job, row.number)
        )
    found = lost.lose_results(step, outputs)
    if _is_used(step.tx, job):
        step.emit(FinishJob(job))  # nothing was in them
    return found


def _is_used(tx: Tx, job: str) -> bool:
    return tx.one("select 1 from job where id = ? and used = tasks", (job,)) is not None


def _with(tx: Tx, outputs: Iterable[tuple[int, int]]) -> dict[str, list[ArrayRow]]:
    found: dict[str, list[ArrayRow]] = {}
    for task, slot in sorted(outputs):
        row = tx.one("select job, array from fold where task = ? and slot = ?", (task, slot))
        if row is None:
            continue
        known = found.setdefault(row[0], [])
        known += [one for one in arrays.of_job(tx, row[0])
                  if one.number == row[1] and one not in known]  # fmt: skip
    return found


def _parts(tx: Tx, row: ArrayRow) -> list[tuple[Box, str]]:
    rows = tx.rows("select box, blob from fold where job = ? and array = ?", (row.job, row.number))
    return [(_box(text), blob) for text, blob in rows]


def _box(text: str) -> Box:
    region = tasks.read_box(text)
    return Box(region.start, region.stop)


def _gone(rows: Sequence[ArrayRow]) -> list[ArrayRow]:
    """Those that cannot be written into. Raises StoreError `disk_failed`."""
    return [row for row in rows if not _opens(row)]


def _opens(row: ArrayRow) -> bool:
    try:
        with io_errors(row.path):
            files.open_array(array_file(row), writable=True).close()
    except StoreError as error:
        if error.code == "disk_failed":
            raise
        return False
    return True


def _is_published(row: ArrayRow, parts: Sequence[tuple[Box, str]]) -> bool:
    """Whether the file with the final name has every verified byte: a crash fell between the name
    and the row."""
    file = structs.replace(array_file(row), path=row.final_path)
    try:
        with io_errors(row.final_path):
            files.open_array(file).close()
            return all(files.box_hash(file, box) == blob for box, blob in parts)
    except StoreError as error:
        if error.code == "disk_failed":
            raise
        return False
