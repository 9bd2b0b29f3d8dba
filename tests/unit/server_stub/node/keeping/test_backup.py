"""Backups of a node that runs, and what they refuse."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.errors import NodeError
from server_stub.node.keeping import backup as backups
from server_stub.node.keeping.backup import backup, sweep
from server_stub.node.keeping.listing import read
from tests.helpers.lab import Lab, on_grid, product, row_sums, until

__all__: list[str] = []

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


def begun(grid: Lab) -> Any:
    """A job for volunteers of which some inputs are packed, and none is computed."""
    a, b, graph = product(300, 40, 200)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"), name="long")
    until(lambda: grid.node.read("select count(*) from blob where refs > 0")[0][0] >= 2)
    return job


def test_a_backup_has_all_that_rows_name_with_its_hash(
    grid: Lab, config: Path, tmp_path: Path
) -> None:
    begun(grid)
    grid.node.settings.state.joinpath("tls.key").chmod(0o600)
    target = tmp_path / "backup"
    made = backup(grid.node.settings, config, target)
    heading, files = read(target)
    paths = {file.path for file in files}
    assert {"node.key", "node.sqlite", "node.toml", "tls.key", "tls.crt"} <= paths
    blobs = {row[0] for row in grid.node.read("select hash from blob where refs > 0")}
    assert {f"blobs/{blob[:2]}/{blob}" for blob in blobs} <= paths
    assert made.files == len(files)
    assert made.damaged == heading.damaged == ()
    for file in files:
        data = (target / file.path).read_bytes()
        assert hashlib.sha256(data).hexdigest() == file.sha256
        assert len(data) == file.nbytes
    for path in (target, *target.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    assert not (grid.node.settings.state / backups.STAGING).exists()


def test_what_is_deleted_after_the_links_is_in_the_backup_all_the_same(
    grid: Lab, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begun(grid)
    room = backups._require_room

    def deleted_meanwhile(*words: Any) -> None:
        grid.client.fetch("DELETE", f"/v1/jobs/{job.job}", max_bytes=1000)
        until(lambda: not list(grid.node.node.blobs.names()))
        room(*words)

    monkeypatch.setattr(backups, "_require_room", deleted_meanwhile)
    made = backup(grid.node.settings, config, tmp_path / "backup")
    assert made.damaged == ()
    copy = sqlite3.connect(tmp_path / "backup" / "node.sqlite")
    assert copy.execute("select id from job").fetchall() == [(job.job,)]
    held = copy.execute("select count(*) from blob where refs > 0").fetchone()[0]
    copy.close()
    assert held == sum(file.path.startswith("blobs/") for file in read(tmp_path / "backup")[1]) > 0


def test_a_damaged_blob_is_named_and_left_out(grid: Lab, config: Path, tmp_path: Path) -> None:
    begun(grid)
    first, second = sorted(grid.node.node.blobs.names())[:2]
    data = bytearray(grid.node.node.blobs.path(first).read_bytes())
    data[5] ^= 1
    grid.node.node.blobs.path(first).write_bytes(data)
    grid.node.node.blobs.path(second).unlink()
    made = backup(grid.node.settings, config, tmp_path / "backup")
    assert made.damaged == (first, second)
    paths = {file.path for file in read(tmp_path / "backup")[1]}
    assert not any(blob in path for blob in (first, second) for path in paths)


def test_where_no_backup_is_made(grid: Lab, config: Path, tmp_path: Path) -> None:
    settings = grid.node.settings
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    places = [settings.state / "b", tmp_path / "file", tmp_path / "full", tmp_path / "no" / "b"]
    for place in places:
        with pytest.raises(NodeError) as caught:
            backup(settings, config, place)
        assert caught.value.code == "backup_target_taken"
    assert (tmp_path / "full" / "mine").exists()


def test_one_backup_at_a_time_and_a_killed_one_leaves_nothing(
    grid: Lab, config: Path, tmp_path: Path
) -> None:
    settings = grid.node.settings
    staging = settings.state / backups.STAGING
    (staging / "blobs").mkdir(parents=True)
    lock = os.open(settings.state / backups.LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(NodeError) as caught:
        backup(settings, config, tmp_path / "b")
    assert caught.value.code == "backup_busy"
    sweep(settings)
    assert staging.exists()  # it is somebody's
    os.close(lock)
    sweep(settings)
    assert not staging.exists()


def test_a_failure_keeps_nothing(
    grid: Lab, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(grid)
    (tmp_path / "given").mkdir()
    config.unlink()
    for target in (tmp_path / "new", tmp_path / "given"):
        with pytest.raises(NodeError) as caught:
            backup(grid.node.settings, config, target)
        assert caught.value.code == "backup_failed"
        assert str(config) in str(caught.value)
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "given").iterdir()) == []
    monkeypatch.setattr(backups, "free_bytes", lambda _: 10)
    with pytest.raises(NodeError) as caught:
        backup(grid.node.settings, config, tmp_path / "new")
    assert caught.value.code == "backup_target_full"


@ROOT_ONLY
def test_a_target_that_is_full_by_itself_or_fills_up(
    grid: Lab, config: Path, tmp_path: Path
) -> None:
    """The command, on a real small disk; the node goes on, and nothing of the backup is kept."""
    values = np.ones((256, 1024), np.float32)
    grid.wait(grid.submit(row_sums((256, 1024)), grid.file(values, "v.npy")))
    place = tmp_path / "m"
    place.mkdir()
    # In the second round something else fills the disk after the backup has looked for room.
    late = f"(room(*w), open('{place}/x', 'wb').write(bytes(4190000)))"
    for size, looks in (("64k", "room(*w)"), ("4m", late)):
        program = (
            "import sys; from server_stub.node.keeping import backup as b;"
            f" room = b._require_room; b._require_room = lambda *w: {looks};"
            " from server_stub.node.commands import main;"
            f" sys.exit(main(['backup', '--config', '{config}', '{place}']))"
        )
        script = (
            f'mount -t tmpfs -o size={size} none {place} && {sys.executable} -c "{program}";'
            f" status=$?; ls {place}; exit $status"
        )
        done = subprocess.run(
            ["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        assert "[backup_target_full]" in done.stderr
        assert done.stdout == ""
    assert grid.wait(grid.submit(row_sums((2, 2)), grid.file(values[:2, :2], "w.npy"))).state == (
        "done"
    )
