"""The blob store: durable, verified on read, resumable after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from gpugoblin.blobs import files, store
from gpugoblin.blobs.chunk import CHUNK_BYTES, blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import StoreError

LONG = bytes(range(251)) * (CHUNK_BYTES // 251 + 3)


def code_of(error: pytest.ExceptionInfo[StoreError]) -> str:
    return error.value.code


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "store")


def test_put_and_read(blobs: BlobStore) -> None:
    for data in (b"", b"abc", LONG):
        blob = blobs.put(data)
        assert blob == blob_hash(data)
        assert blobs.has(blob)
        with blobs.open_read(blob) as reader:
            assert reader.nbytes == len(data)
            assert reader.read() == data
            target = bytearray(len(data))
            reader.read_into(memoryview(target))
            assert target == data
    assert set(blobs.names()) == {blob_hash(data) for data in (b"", b"abc", LONG)}
    assert not list((blobs.root / "parts").iterdir())


def test_put_twice_is_one_blob(blobs: BlobStore) -> None:
    assert blobs.put(b"same") == blobs.put(b"same")
    assert len(list(blobs.names())) == 1


def test_unfinished_writer_leaves_nothing(blobs: BlobStore) -> None:
    with blobs.writer() as writer:
        writer.write(b"half")
    assert not list(blobs.names())
    assert not list((blobs.root / "parts").iterdir())


def test_order_of_syncs(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are synced before they get their name, the directory after it."""
    seen: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        seen.append("directory" if os.path.isdir(target) else Path(target).suffix)
        real_fsync(descriptor)

    def rename(source: object, target: object) -> None:
        seen.append(f"rename {'chunks' if str(target).endswith('.chunks') else 'bytes'}")
        real_rename(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    blobs.put(b"bytes")
    assert seen == [
        ".writing", "directory", ".part", "rename chunks", "directory", "rename bytes", "directory",
    ]  # fmt: skip


def test_damage_is_found_at_its_chunk(blobs: BlobStore) -> None:
    blob = blobs.put(LONG)
    with blobs.path(blob).open("r+b") as file:
        file.seek(CHUNK_BYTES + 5)
        file.write(b"\xff")
    with blobs.open_read(blob) as reader:
        buffer = memoryview(bytearray(CHUNK_BYTES))
        assert reader.read_chunk(0, buffer) == LONG[:CHUNK_BYTES]
        with pytest.raises(StoreError) as caught:
            reader.read_chunk(1, buffer)
    assert code_of(caught) == "blob_damaged"
    assert caught.value.fields["chunk"] == 1


def test_truncation_is_found(blobs: BlobStore) -> None:
    blob = blobs.put(LONG)
    os.truncate(blobs.path(blob), 100)
    with pytest.raises(StoreError) as caught:
        blobs.open_read(blob)
    assert code_of(caught) == "blob_truncated"


def test_truncation_while_open_is_found(blobs: BlobStore) -> None:
    blob = blobs.put(LONG)
    with blobs.open_read(blob) as reader:
        os.truncate(blobs.path(blob), CHUNK_BYTES + 1)
        with pytest.raises(StoreError) as caught:
            reader.read()
    assert code_of(caught) == "blob_truncated"


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 40, b"\0" * 72])
def test_damaged_chunk_list_is_found(blobs: BlobStore, content: bytes) -> None:
    blob = blobs.put(b"abc")
    path = blobs.path(blob)
    path.with_name(path.name + ".chunks").write_bytes(content)
    with pytest.raises(StoreError) as caught:
        blobs.manifest(blob)
    assert code_of(caught) == "manifest_malformed"


def test_missing_blob(blobs: BlobStore) -> None:
    blob = blobs.put(b"abc")
    assert blobs.delete(blob)
    assert not blobs.delete(blob)
    assert not blobs.has(blob)
    with pytest.raises(StoreError) as caught:
        blobs.open_read(blob)
    assert code_of(caught) == "blob_missing"


def test_names_cannot_leave_the_store(blobs: BlobStore) -> None:
    with pytest.raises(StoreError):
        blobs.path("../../etc/passwd")
    with pytest.raises(StoreError):
        blobs.upload("../escape", 3)


def test_full_disk_is_said_before_writing(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = namedtuple("status", "f_bavail f_frsize")
    monkeypatch.setattr(os, "statvfs", lambda _: status(10, 4096))
    with pytest.raises(StoreError) as caught:
        blobs.writer(1_000_000)
    assert code_of(caught) == "disk_full"
    assert caught.value.fields["free_bytes"] == 40960
    with pytest.raises(StoreError):
        blobs.upload("up", 1_000_000)


def test_full_disk_in_the_middle(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with blobs.writer() as writer:
        writer.write(b"first")
        monkeypatch.setattr(os, "pwrite", no_space)
        with pytest.raises(StoreError) as caught:
            writer.write(b"second")
    assert code_of(caught) == "disk_full"
    assert not list((blobs.root / "parts").iterdir())


def test_full_device_for_real() -> None:
    """/dev/full answers every write with ENOSPC."""
    with pytest.raises(StoreError) as caught, files.io_errors("/dev/full", 3):  # noqa: PT012
        descriptor = os.open("/dev/full", os.O_WRONLY)
        try:
            files.pwrite_all(descriptor, b"abc", 0)
        finally:
            os.close(descriptor)
    assert code_of(caught) == "disk_full"


def test_upload_resumes_in_another_life(tmp_path: Path) -> None:
    first = BlobStore(tmp_path / "store")
    with first.upload("lease_1", len(LONG)) as upload:
        upload.write(0, LONG[:1000])
        upload.write(1000, LONG[1000:5000], sync=False)
        assert upload.sync().stored_bytes == 5000
    second = BlobStore(tmp_path / "store")
    second.sweep()
    assert second.upload_progress("lease_1", len(LONG)).stored_bytes == 5000
    with second.upload("lease_1", len(LONG)) as upload:
        upload.write(5000, LONG[5000:])
        assert upload.progress().complete
    manifest = second.finish_upload("lease_1", len(LONG), blob_hash(LONG))
    assert manifest.blob == blob_hash(LONG)
    assert second.finish_upload("lease_1", len(LONG), blob_hash(LONG)) == manifest


def test_upload_misuse(blobs: BlobStore) -> None:
    with blobs.upload("up", 10) as upload:
        upload.write(0, b"abc")
        for offset, data, code in ((0, b"x", "upload_offset"), (3, b"12345678", "upload_too_long")):
            with pytest.raises(StoreError) as caught:
                upload.write(offset, data)
            assert code_of(caught) == code
    with pytest.raises(StoreError) as caught:
        blobs.finish_upload("up", 10)
    assert code_of(caught) == "upload_incomplete"
    with pytest.raises(StoreError) as caught:
        blobs.upload_progress("up", 2)
    assert code_of(caught) == "upload_too_long"


def test_upload_of_other_bytes_is_thrown_away(blobs: BlobStore) -> None:
    with blobs.upload("up", 3) as upload:
        upload.write(0, b"abc")
    with pytest.raises(StoreError) as caught:
        blobs.finish_upload("up", 3, blob_hash(b"abd"))
    assert code_of(caught) == "upload_mismatch"
    assert blobs.upload_progress("up", 3).stored_bytes == 0
    assert not list(blobs.names())


KILLED = """
import os, signal, sys
from gpugoblin.blobs.store import BlobStore
store = BlobStore(sys.argv[1])
upload = store.upload("up", 3_000_000)
real = os.pwrite
def pwrite(descriptor, data, offset):
    real(descriptor, data[: len(data) // 2], offset)
    os.kill(os.getpid(), signal.SIGKILL)
upload.write(0, b"a" * 1_000_000)
os.pwrite = pwrite
upload.write(1_000_000, b"b" * 1_000_000)
"""


def test_upload_survives_a_kill_in_the_middle_of_a_write(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", KILLED, str(tmp_path / "store")], check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    blobs = BlobStore(tmp_path / "store")
    stored = blobs.upload_progress("up", 3_000_000).stored_bytes
    assert stored == 1_500_000
    data = b"a" * 1_000_000 + b"b" * 2_000_000
    with blobs.upload("up", len(data)) as upload:
        upload.write(stored, data[stored:])
    assert blobs.finish_upload("up", len(data), blob_hash(data)).nbytes == len(data)


def test_sweep_finds_what_a_death_while_naming_a_blob_left(blobs: BlobStore) -> None:
    kept = blobs.path(blobs.put(b"whole"))
    beside = kept.with_name(f".{kept.name}.chunks.123.part")
    beside.write_bytes(b"half")
    orphan = kept.with_name(f"{kept.name[:2]}{'0' * 62}.chunks")
    orphan.write_bytes(b"its bytes never came")
    assert blobs.sweep() == 2
    assert sorted(kept.parent.iterdir()) == [kept, kept.with_name(f"{kept.name}.chunks")]


def test_sweep_keeps_uploads_only(blobs: BlobStore) -> None:
    part = blobs.root / "parts" / "blob_x.writing"
    part.write_bytes(b"left over")
    with blobs.upload("up", 3) as upload:
        upload.write(0, b"a")
    assert blobs.sweep() == 1
    assert blobs.upload_progress("up", 3).stored_bytes == 1
    assert not part.exists()


def test_reserve_is_left_free(tmp_path: Path) -> None:
    greedy = BlobStore(tmp_path / "store", reserve_bytes=1 << 60)
    with pytest.raises(StoreError) as caught:
        greedy.put(b"x")
    assert code_of(caught) == "disk_full"
    assert store.CHUNK_BYTES == CHUNK_BYTES


def test_uploads_that_are_not_finished_are_listed(blobs: BlobStore) -> None:
    for key in ("lease_a-0", "lease_b-1"):
        with blobs.upload(key, 3) as upload:
            upload.write(0, b"ab")
    assert set(blobs.uploads()) == {"lease_a-0", "lease_b-1"}
    with blobs.upload("lease_a-0", 3) as upload:
        upload.write(2, b"c")
    blobs.finish_upload("lease_a-0", 3)
    blobs.discard_upload("lease_b-1")
    assert list(blobs.uploads()) == []


def test_a_blob_deleted_while_it_is_stored_again_is_there_or_not(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never bytes without their chunk list, which nothing could mend."""
    blob = blobs.put(b"again")
    other = threading.Thread(target=blobs.put, args=(b"again",))
    unlink = Path.unlink

    def meanwhile(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        if path == blobs.path(blob):
            other.start()
            other.join(0.5)

    monkeypatch.setattr(Path, "unlink", meanwhile)
    blobs.delete(blob)
    other.join()
    assert blobs.manifest(blob).nbytes == 5
