"""The files of a job's outputs: made at the start, named at the end, deleted without one.

Owns: where a result stands and when it gets its name. Must not: write into it (the workers do).
Every step can be done twice, since a crash may fall between a file and its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import NodeError, StoreError
from gpugoblin.ids import fresh_id
from gpugoblin.wire.messages.job import OutputSave
from server_stub.node import arrays as files
from server_stub.node.items import array_file
from server_stub.node.state.arrays import ArrayRow, NewArray
from server_stub.node.work import ArrayFile

__all__ = [
    "are_whole",
    "check_places",
    "create",
    "discard",
    "publish",
    "remake",
    "require_outside",
]

SUFFIX: Final = {"npy": ".npy", "zarr": ".zarr", "safetensors": ".safetensors"}


def require_outside(state: Path, path: str, member: str = "") -> None:
    """Refuses the node's own directory: its keys, its database and other users' arrays lie there,
    and the node may read and replace them all.

    Raises:
        NodeError: `output_path`.
    """
    if "\0" in member:
        raise NodeError("output_path", path=path, reason="no member has such a name")
    place = Path(path)
    for named in (place, place / member):
        if named.resolve().is_relative_to(state.resolve()):
            raise NodeError("output_path", path=path, reason="it lies in the node's own directory")


def check_places(saves: Sequence[OutputSave], state: Path, *, local: bool) -> None:
    """Refuses places that a result cannot have.

    Args:
        state: the node's own directory.

    Raises:
        NodeError: `output_path`, `file_not_local`.
    """
    taken: set[str] = set()
    for save in saves:
        if save.format == "node":
            continue
        if save.retention != "durable":
            reason = "only what the node keeps can be a cache; a file that you name is yours"
            raise NodeError("output_path", path=save.path, reason=reason)
        if not local:
            raise NodeError("file_not_local")
        path = Path(save.path)
        if not path.is_absolute() or "\0" in save.path:
            raise NodeError("output_path", path=save.path, reason="it is not an absolute path")
        if not path.parent.is_dir():
            raise NodeError(
                "output_path", path=save.path, reason=f"there is no directory {path.parent}"
            )
        require_outside(state, save.path)
        if save.path in taken:
            raise NodeError("output_path", path=save.path, reason="two outputs would be there")
        taken.add(save.path)


def create(
    root: Path, owner: str, saves: Sequence[OutputSave], specs: Sequence[TensorSpec],
    tile: tuple[int, ...],
) -> list[NewArray]:  # fmt: skip
    """Makes the files under temporary names; after a failure none is left.

    Raises:
        StoreError: `array_exists`, `disk_full`, `disk_failed`.
    """
    made: list[NewArray] = []
    try:
        for save, spec in zip(saves, specs, strict=True):
            made.append(_create_one(root, owner, save, spec, tile))
    except BaseException:
        for new in made:
            discard_new(new)
        raise
    return made


def _create_one(
    root: Path, owner: str, save: OutputSave, spec: TensorSpec, tile: tuple[int, ...]
) -> NewArray:
    array = fresh_id("array")
    ours = save.format == "node"
    kind = "npy" if ours else save.format
    path = str(root / f"{array}.npy") if ours else save.path
    made = files.create_result(
        cast(Any, kind), path, spec.dtype, spec.shape, tile=tile, overwrite=save.overwrite
    )
    return NewArray(
        id=array, owner=owner, source=save.format, kind=made.kind, path=made.path,
        member=made.member, offset_bytes=made.offset_bytes, dtype=spec.dtype, shape=spec.shape,
        fingerprint="0" * 64, stored_bytes=0, complete=False, ours=ours, final_path=path,
        overwrite=save.overwrite, retention=save.retention,
    )  # fmt: skip


def remake(rows: Sequence[ArrayRow], tile: tuple[int, ...]) -> list[ArrayFile]:
    """Empty files, under new temporary names, for results whose files are gone; after a failure
    none is left.

    Raises:
        StoreError: `array_exists`, `array_not_replaced`, `disk_full`, `disk_failed`.
    """
    made: list[ArrayFile] = []
    try:
        for row in rows:
            parent = Path(row.final_path).parent
            if not parent.is_dir():
                reason = f"there is no directory {parent}"
                raise StoreError("disk_failed", path=row.final_path, reason=reason)
            made.append(files.create_result(
                cast(Any, row.kind), row.final_path, row.dtype, row.shape, tile=tile,
                overwrite=row.overwrite or row.ours,
            ))  # fmt: skip
    except BaseException:
        for file in made:
            files.discard(file)
        raise
    return made


def are_whole(rows: Sequence[ArrayRow], overwrites: Sequence[bool]) -> bool:
    """Whether the unfinished results of an ended job can still be written into.

    Raises:
        StoreError: `array_exists`, `array_not_replaced`: something stands at their places now.
    """
    for row, overwrite in zip(rows, overwrites, strict=True):
        files.require_place(Path(row.final_path), row.kind, overwrite)
        try:
            files.open_array(array_file(row), writable=True).close()
        except StoreError:
            return False
    return True


def publish(rows: Sequence[ArrayRow]) -> None:
    """Gives finished results their names.

    Raises:
        StoreError: `array_exists`, `disk_failed`.
    """
    for row in rows:
        if row.path != row.final_path:
            files.publish(array_file(row), row.final_path, overwrite=row.overwrite)


def discard(rows: Sequence[ArrayRow], *, finished: bool = False) -> None:
    """Deletes what was written of results that are not wanted.

    A finished result is deleted only where it is the node's own; a file that the researcher
    named belongs to the researcher.
    """
    for row in rows:
        if row.path and (row.ours or (not finished and row.path != row.final_path)):
            files.discard(array_file(row))


def discard_new(new: NewArray) -> None:
    """Deletes a file that no row names yet."""
    files.discard(ArrayFile(cast(Any, new.kind), new.path, new.dtype, new.shape))
