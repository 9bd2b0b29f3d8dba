"""Commands that were killed in the middle: what stays harms nothing, and each can be repeated."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import NodeError
from server_stub.node.commands import main
from server_stub.node.keeping import backup as backups
from server_stub.node.keeping.listing import read
from server_stub.node.keeping.restore import restore
from server_stub.node.settings import load
from server_stub.node.store import migrations
from server_stub.node.store.schema import SCHEMA_VERSION
from server_stub.node.store.sqlite import connect
from tests.helpers.lab import Lab, on_grid, product, until, work_until
from tests.helpers.node import LabNode
from tests.unit.server_stub.node.keeping.test_check import flip
from tests.unit.server_stub.node.keeping.test_collect import age
from tests.unit.server_stub.node.store.test_migrations import old_database

__all__: list[str] = []

KILL = "die = lambda *_, **__: os.kill(os.getpid(), 9)"


def killed(patch: str, *words: str) -> None:
    """Runs a command in a process of its own, which dies where `patch` says `die`."""
    program = (
        f"import os, sys\n{KILL}\n{patch}\n"
        f"from server_stub.node.commands import main\nsys.exit(main({list(words)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stdout + done.stderr


BACKUP = "from server_stub.node.keeping import backup as b\n"
IN_BACKUP = ("b._require_room = die", "b._Copy._blobs = die", "b.durable_write = die")


def test_a_backup(grid: Lab, config: Path, tmp_path: Path) -> None:
    a, b, graph = product(300, 40, 200)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"), name="long")
    until(lambda: grid.node.read("select count(*) from region where stored = 1")[0][0] >= 2)
    staging = grid.node.settings.state / backups.STAGING
    for number, place in enumerate(IN_BACKUP):
        target = tmp_path / f"killed-{number}"
        killed(BACKUP + place, "backup", str(target), "--config", str(config))
        assert staging.exists()
        with pytest.raises(NodeError) as caught:
            restore(target, tmp_path / "no.toml", tmp_path / "no")
        assert caught.value.code == "backup_incomplete"
    assert main(["backup", str(tmp_path / "whole"), "--config", str(config)]) == 0
    assert not staging.exists()
    assert read(tmp_path / "whole")
    with grid.device() as device:
        assert work_until(grid, grid.job("long"), [device]).state == "done"


RESTORE = "from server_stub.node.keeping import restore as r\n"
IN_RESTORE = (
    "r._check_database = die",
    pytest.param("r._take = die", marks=pytest.mark.slow),
    pytest.param("r.sync_directory = die", marks=pytest.mark.slow),
    pytest.param("r.node_settings.load = die", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("place", IN_RESTORE)
def test_a_restore(config: Path, tmp_path: Path, given: dict[str, object], place: str) -> None:
    with LabNode(tmp_path, **given) as node:
        backups.backup(node.settings, config, tmp_path / "backup")
    new, state = tmp_path / "new.toml", tmp_path / "new"
    words = ("restore", str(tmp_path / "backup"), "--config", str(new), "--state-dir", str(state))
    killed(RESTORE + place, *words)
    if new.exists():  # it was whole; the last look at it is what is missing
        assert main(list(words)) == 1
        new.unlink()
    assert main(list(words)) == 0
    assert load(new).state == state
    assert sorted(path.name for path in state.iterdir()) == [
        "arrays", "node.key", "node.sqlite", "tls.crt", "tls.key"
    ]  # fmt: skip
    assert main(list(words)) == 1  # what is there stays
    new.unlink()
    assert main(list(words)) == 1
    assert state.exists()


def test_a_restored_node_that_was_run_is_not_restored_over(
    config: Path, tmp_path: Path, given: dict[str, object]
) -> None:
    with LabNode(tmp_path, **given) as node:
        backups.backup(node.settings, config, tmp_path / "backup")
    words = ("restore", str(tmp_path / "backup"), "--config", str(tmp_path / "new.toml"),
             "--state-dir", str(tmp_path / "new"))  # fmt: skip
    killed(RESTORE + "r.sync_directory = die", *words)
    mine = tmp_path / "new" / "node.lock"
    mine.touch()
    assert main(list(words)) == 1
    assert mine.exists()


GC = """
from gpugoblin.blobs.store import BlobStore
def delete(self, name):
    self.path(name).unlink()
    die()
BlobStore.delete = delete
"""


def test_collecting(grid: Lab, config: Path) -> None:
    store = grid.node.node.blobs
    names = [store.put(text) for text in (b"nobody's", b"nobody's either")]
    for name in names:
        age(store.path(name))
    words = ("gc", "--delete", "--config", str(config))
    killed(GC, *words)
    assert sum(store.has(name) for name in names) == 1
    assert main(list(words)) == 0
    assert not any(store.has(name) for name in names)
    assert store.put(b"nobody's") == names[0]
    with store.open_read(names[0]) as reader:
        assert reader.read() == b"nobody's"


FSCK = """
from server_stub.node.keeping import check
aside = check.set_aside
def set_aside(*words):
    aside(*words)
    die()
check.set_aside = set_aside
"""


def test_checking(grid: Lab, config: Path) -> None:
    a, b, graph = product(300, 40, 200)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"), name="long")
    until(lambda: grid.node.read("select count(*) from region where stored = 1")[0][0] >= 2)
    for name in list(grid.node.node.blobs.names()):
        flip(grid.node.node.blobs.path(name), 11)
    words = ("fsck", "--config", str(config))
    killed(FSCK, *words)
    assert main(list(words)) == 3
    until(lambda: main(list(words)) == 0)
    with grid.device() as device:
        done = work_until(grid, job, [device])
    assert done.state == "done"
    np.testing.assert_allclose(grid.result(done.outputs[0]), a @ b, rtol=1e-4, atol=1e-4)


UPGRADE = "from server_stub.node.store import migrations as m\n"
IN_UPGRADE = (
    "m._sync = die",
    "m._run = die",
    "class S(tuple):\n    def __iter__(self):\n"
    "        yield from list(super().__iter__())[:9]\n        die()\n"
    f"m.STEPS = {{**m.STEPS, {SCHEMA_VERSION}: S(m.STEPS[{SCHEMA_VERSION}])}}",
)


@pytest.mark.parametrize("place", IN_UPGRADE)
def test_an_upgrade(config: Path, capsys: pytest.CaptureFixture[str], place: str) -> None:
    database = load(config).database
    database.parent.mkdir(exist_ok=True)
    old_database(database, 4)
    killed(UPGRADE + place, "upgrade", "--config", str(config))
    with closing(connect(database)) as connection:
        assert migrations.version_of(connection) == 4
    assert main(["upgrade", "--config", str(config)]) == 0
    assert "version 4 is now" in capsys.readouterr().out
    left = {path.name for path in database.parent.iterdir() if "version" in path.name}
    assert left == {"node.sqlite.version-4"}
    with closing(connect(database.with_name("node.sqlite.version-4"))) as copy:
        assert migrations.version_of(copy) == 4
