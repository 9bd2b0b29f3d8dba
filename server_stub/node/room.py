"""Whether something more fits the disks beside all that was promised before.

Owns: the look at the disks, and the claim of a submission on them. A claim is judged and noted in
one transaction, so of two submissions that come at the same moment, one sees the other's. Must not:
know why something is wanted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gpugoblin.blobs.files import free_bytes
from gpugoblin.errors import NodeError
from gpugoblin.units import format_bytes
from server_stub.node.settings import NodeSettings
from server_stub.node.state import room
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["Short", "claim", "missing_bytes", "require", "short"]

UPLOAD_S: Final = 3600.0
"""An upload to which nothing has been written for so long holds no room for what is missing."""

_BLOCK: Final = 512
"""What `st_blocks` counts, whatever the file system's own blocks are."""


class Short(NamedTuple):
    """A disk on which something does not fit: a place on it, and what is free for newcomers."""

    place: Path
    needed: int
    free: int


def missing_bytes(path: Path, nbytes: int) -> int:
    """How many bytes of a file of that size have no room of their own yet."""
    try:
        return max(0, nbytes - os.stat(path).st_blocks * _BLOCK)
    except OSError:
        return nbytes


def short(tx: Tx, settings: NodeSettings, wanted: Iterable[tuple[Path, int]]) -> Short | None:
    """The first disk that has too little room; None where all is well.

    Args:
        wanted: paths that are to be written, or their directories, with the bytes that will come.
    """
    own: dict[int, tuple[Path, int]] = {}
    for path, nbytes in wanted:
        place = _existing(path)
        device = place.stat().st_dev
        own[device] = (place, own.get(device, (place, 0))[1] + nbytes)
    others = _promised(tx, settings)
    for device, (place, needed) in own.items():
        free = free_bytes(place) - settings.reserve_bytes - others.get(device, 0)
        if needed and needed > free:
            return Short(place, needed, max(0, free))
    return None


def require(tx: Tx, settings: NodeSettings, wanted: Iterable[tuple[Path, int]]) -> None:
    """Raises NodeError `results_do_not_fit`."""
    found = short(tx, settings, wanted)
    if found is not None:
        raise NodeError(
            "results_do_not_fit", needed=format_bytes(found.needed), path=found.place,
            free=format_bytes(found.free),
        )  # fmt: skip


def claim(step: Step, settings: NodeSettings, wanted: Sequence[tuple[Path, int]]) -> str:
    """Promises room to a submission; returns the note of it (`state.room`).

    Raises:
        NodeError: `results_do_not_fit`.
    """
    require(step.tx, settings, wanted)
    return room.note(step, [(str(path), nbytes) for path, nbytes in wanted])


def _promised(tx: Tx, settings: NodeSettings) -> dict[int, int]:
    """By device, the bytes that will still come."""
    found = {_existing(settings.state).stat().st_dev: room.of_blobs(tx)}
    for promise in room.promised(tx):
        path = Path(promise.path)
        if promise.is_upload and _is_left(path):
            continue
        nbytes = missing_bytes(path, promise.nbytes) if promise.is_file else promise.nbytes
        device = _existing(path).stat().st_dev
        found[device] = found.get(device, 0) + nbytes
    return found


def _is_left(path: Path) -> bool:
    """Whether nobody goes on with an upload. Its file is made after its row."""
    try:
        return path.stat().st_mtime < time.time() - UPLOAD_S
    except OSError:
        return False


def _existing(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
