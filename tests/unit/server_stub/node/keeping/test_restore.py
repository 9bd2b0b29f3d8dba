"""A node out of its backup: at another path, with its unfinished jobs."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import GoblinError
from gpugoblin.wire.keys import load_or_make_key
from gpugoblin.wire.signing import public_key_bytes
from server_stub.node.keeping.backup import backup
from server_stub.node.keeping.listing import LIST_NAME
from server_stub.node.keeping.restore import restore
from server_stub.node.settings import load
from tests.helpers.lab import Lab, free_port, on_grid, product, row_sums, until, work_until
from tests.helpers.node import LabNode

__all__: list[str] = []


def test_an_unfinished_job_goes_on_at_another_path(
    tmp_path: Path, config: Path, given: dict[str, object]
) -> None:
    a, b, graph = product(300, 40, 200)
    sums = np.arange(12, dtype=np.float32).reshape(3, 4)
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as lab:
        finished = lab.wait(lab.submit(row_sums((3, 4)), lab.file(sums, "s.npy"), name="short"))
        job = on_grid(lab, graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"), name="long")
        until(lambda: node.read("select count(*) from region where stored = 1")[0][0] >= 2)
        with lab.device() as device:
            device.work()
        key = public_key_bytes(node.node.key)
        backup(node.settings, config, tmp_path / "backup")
    shutil.rmtree(tmp_path / "state")
    other = tmp_path / "other"
    made = restore(tmp_path / "backup", other / "node.toml", other / "state")
    assert made.unfinished == 1
    assert (other / "state" / "node.key").stat().st_mode & 0o777 == 0o600
    assert public_key_bytes(load_or_make_key(other / "state" / "node.key")) == key
    restored = load(other / "node.toml")
    assert restored.state_dir == str(other / "state")
    assert restored.lab == given["lab"]
    with LabNode(other, **{**given, "listen_port": free_port()}) as node, Lab(node, other) as lab:
        np.testing.assert_allclose(lab.result(lab.job("short").outputs[0]), sums.sum(1))
        assert lab.job("short").job == finished.job
        with lab.device() as device:
            done = work_until(lab, lab.job("long"), [device])
        assert (done.job, done.state) == (job.job, "done")
        np.testing.assert_allclose(lab.result(done.outputs[0]), a @ b, rtol=1e-4, atol=1e-4)


def made_backup(tmp_path: Path, config: Path, given: dict[str, object]) -> Path:
    with LabNode(tmp_path, **given) as node:
        backup(node.settings, config, tmp_path / "backup")
    return tmp_path / "backup"


def refused(code: str, source: Path, root: Path) -> GoblinError:
    with pytest.raises(GoblinError) as caught:
        restore(source, root / "new.toml", root / "new")
    assert caught.value.code == code
    left = {path.name for path in root.iterdir()}
    assert not {"new.toml", "new", ".new.restoring"} & left
    return caught.value


def test_a_backup_that_is_not_as_it_was_is_refused_whole(
    tmp_path: Path, config: Path, given: dict[str, object]
) -> None:
    source = made_backup(tmp_path, config, given)
    whole = (source / "node.toml").read_bytes()
    (source / "node.toml").write_bytes(whole.replace(b"node", b"mode"))
    assert "its hash differs" in str(refused("backup_damaged", source, tmp_path))
    (source / "node.toml").write_bytes(whole[:-1])
    assert "bytes instead of" in str(refused("backup_damaged", source, tmp_path))
    (source / "node.toml").unlink()
    refused("backup_damaged", source, tmp_path)
    (source / LIST_NAME).unlink()
    refused("backup_incomplete", source, tmp_path)


def test_a_backup_of_a_newer_program_is_refused(
    tmp_path: Path, config: Path, given: dict[str, object]
) -> None:
    with LabNode(tmp_path, **given):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "node.sqlite")) as database:
        database.execute("update meta set value = '999' where key = 'schema_version'")
        database.commit()
    backup(load(config), config, tmp_path / "backup")
    assert "999" in str(refused("database_newer", tmp_path / "backup", tmp_path))


def test_nothing_is_replaced(tmp_path: Path, config: Path, given: dict[str, object]) -> None:
    source = made_backup(tmp_path, config, given)
    before = config.read_bytes()
    for target, state in ((config, tmp_path / "new"), (tmp_path / "new.toml", tmp_path / "state")):
        with pytest.raises(GoblinError) as caught:
            restore(source, target, state)
        assert caught.value.code == "restore_target_taken"
    assert config.read_bytes() == before
    made = restore(source, tmp_path / "new.toml", tmp_path / "new")
    assert made.state == tmp_path / "new"
