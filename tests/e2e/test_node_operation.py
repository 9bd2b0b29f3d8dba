"""A lab node as a service, with its real process: ending, backups while it computes, and a machine
that goes wrong under it. What is answered is never lost, and what is wrong has a code."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

import gpugoblin as gg
from tests.helpers.chaos_lab import Lab
from tests.helpers.lab import free_port
from tests.helpers.network import NODE
from tests.helpers.network_processes import patience

pytestmark = pytest.mark.timeout(240)

VALUES = np.random.default_rng(94).standard_normal((3072, 64), dtype=np.float32)
LONG = np.random.default_rng(95).standard_normal((4608, 1024), dtype=np.float32)
"""For a job that is still running when another program has been started."""


@pytest.fixture
def root() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="gg-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """In the place of the usual look: engines of a node that ended go a moment later."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    waiting = patience("engines end with their node")
    while waiting():
        left = psutil.Process().children(recursive=True)
        if not [child for child in left if child.pid not in before]:
            break


def ready(port: int) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/v1/ready")
        reply = connection.getresponse()
        return reply.status, reply.read().decode().strip()
    finally:
        connection.close()


def is_not_ready(port: int, code: str) -> None:
    waiting = patience(f"the node says that it is not ready: {code}")
    while waiting():
        if ready(port) == (503, f"not ready: {code}"):
            return


def begun(lab: Lab, values: np.ndarray = VALUES) -> None:
    """Starts the job `long`, of many tiles of which some are verified."""
    with gg.connect(lab.address):
        x = gg.array(values)
        job = (x @ x.T).save(name="long", executor="local")
        waiting = patience("some tiles are verified")
        while waiting():
            if job.refresh().verified >= 2:
                break
        assert job.info.state == "running"


def is_right(lab: Lab, values: np.ndarray = VALUES) -> None:
    """The job ends well, with the numbers of NumPy."""
    with gg.connect(lab.address) as session:
        job = session.get("long").wait(120)
        np.testing.assert_allclose(job.array[...], values @ values.T, rtol=1e-3, atol=1e-3)


def node(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", *NODE, *words, "--config", str(lab.config)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_backup_while_it_computes_goes_on_elsewhere(root: Path) -> None:
    with Lab(root) as lab:
        begun(lab, LONG)
        done = node(lab, "backup", str(root / "backup"))
        assert done.returncode == 0, done.stderr
        is_right(lab, LONG)  # it was not disturbed
    shutil.rmtree(lab.state)
    other = root / "other"
    other.mkdir()
    words = ["--config", str(other / "node.toml"), "--state-dir", str(other / "node")]
    restored = subprocess.run(
        [sys.executable, "-I", *NODE, "restore", str(root / "backup"), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 go on" in restored.stdout
    with Lab(other) as again:
        is_right(again, LONG)


@pytest.mark.slow
def test_a_result_at_its_own_place_is_made_again_elsewhere(root: Path) -> None:
    """It is the researcher's file, so it is not in the backup; without it no job is done."""
    out = root / "out"
    out.mkdir()
    with Lab(root) as lab:
        with gg.connect(lab.address):
            x = gg.array(LONG)
            job = (x @ x.T).save(out / "long.npy", name="long", executor="local")
            waiting = patience("some tiles are verified")
            while waiting():
                if job.refresh().verified >= 2:
                    break
            assert job.info.state == "running"
        done = node(lab, "backup", str(root / "backup"))
        assert done.returncode == 0, done.stderr
        lab.programs.kill("node")
    shutil.rmtree(lab.state)
    shutil.rmtree(out)
    out.mkdir()
    other = root / "other"
    other.mkdir()
    words = ["--config", str(other / "node.toml"), "--state-dir", str(other / "node")]
    subprocess.run(
        [sys.executable, "-I", *NODE, "restore", str(root / "backup"), *words],
        capture_output=True,
        check=True,
    )
    with Lab(other) as again, gg.connect(again.address) as session:
        session.get("long").wait(120)
        found = np.load(out / "long.npy")
    np.testing.assert_allclose(found, LONG @ LONG.T, rtol=1e-3, atol=1e-3)
    assert [path.name for path in out.iterdir()] == ["long.npy"]


@pytest.mark.slow
def test_a_verified_tile_that_rots_is_found_and_made_again(root: Path) -> None:
    with Lab(root) as lab:
        begun(lab, LONG)
        with contextlib.closing(sqlite3.connect(lab.state / "node.sqlite")) as rows:
            (path,) = rows.execute("select path from array where job is not null").fetchone()
            waiting, box = patience("a tile is in its place"), None
            while waiting() and box is None:
                box = rows.execute("select box from fold where array = 0 limit 1").fetchone()
        assert box is not None
        (row, column), _ = json.loads(box[0])
        with Path(path).open("r+b") as file:
            file.seek(-4 * (LONG.shape[0] ** 2 - row * LONG.shape[0] - column), os.SEEK_END)
            file.write(b"\xff\xff\x7f\x7f")  # the largest number there is
        done = node(lab, "fsck")
        assert (done.returncode, "computed again" in done.stdout) == (3, True), done.stdout
        is_right(lab, LONG)
        assert node(lab, "fsck").returncode == 0


def test_it_ends_after_what_is_under_way_and_goes_on(root: Path) -> None:
    with Lab(root) as lab:
        begun(lab)
        lab.stop()
        with contextlib.closing(sqlite3.connect(lab.state / "node.sqlite")) as rows:
            under_way = "select count(*) from lease where state in ('issued', 'committed')"
            assert rows.execute(under_way).fetchone() == (0,)
        lab.start()
        is_right(lab)


def test_a_second_signal_ends_it_at_once(root: Path) -> None:
    with Lab(root, stop_wait_s=3600.0) as lab:
        begun(lab)
        said = len(lab.programs.log("node"))
        lab.programs.ask_to_end("node")
        lab.programs.await_line("node", "stopping", said)
        os.kill(lab.programs.pid("node"), signal.SIGTERM)
        lab.programs.await_end("node")
        lab.start()
        is_right(lab)


def test_a_store_that_is_moved_away_ends_it_and_loses_nothing(root: Path) -> None:
    with Lab(root) as lab:
        begun(lab)
        lab.state.rename(root / "moved")
        lab.programs.await_line("node", "state_dir_moved")
        lab.programs.await_end("node", status=1)
        assert not lab.state.exists()
        (root / "moved").rename(lab.state)
        lab.start()
        is_right(lab)


@pytest.mark.slow
def test_a_database_that_another_program_holds(root: Path) -> None:
    port = free_port()
    with Lab(root, metrics_port=port) as lab:
        begun(lab)
        with contextlib.closing(sqlite3.connect(lab.state / "node.sqlite")) as holder:
            holder.execute("begin immediate")
            is_not_ready(port, "database_locked")
            asked_s = time.monotonic()
            with gg.connect(lab.address) as session:
                assert session.get("long").info.state == "running"
            assert time.monotonic() - asked_s < 9  # less than a transaction waits: reading goes on
            holder.rollback()
        is_right(lab)
        assert ready(port) == (200, "ready")


def test_a_schema_of_a_newer_program_is_refused_and_left(root: Path) -> None:
    with Lab(root) as lab:
        lab.stop()
        with contextlib.closing(sqlite3.connect(lab.state / "node.sqlite")) as rows:
            rows.execute("update meta set value = '999' where key = 'schema_version'")
            rows.commit()
        before = (lab.state / "node.sqlite").read_bytes()
        done = node(lab, "serve")
        assert done.returncode == 1
        assert "[database_newer]" in done.stderr
        assert "999" in done.stderr
        assert (lab.state / "node.sqlite").read_bytes() == before


def test_a_lab_whose_disk_is_not_mounted_is_not_given_a_new_key(root: Path) -> None:
    with Lab(root) as lab:
        lab.stop()
        text = lab.config.read_text()
        lab.config.write_text(text.replace('# lab = ""', 'lab = "lab_abc"'))
        lab.state.rename(root / "elsewhere")
        done = node(lab, "serve")
        assert done.returncode == 1
        assert "[state_dir_empty]" in done.stderr
        assert not lab.state.exists()


def test_the_log_as_json(root: Path) -> None:
    with Lab(root, log_format="json") as lab:
        lab.stop()
        lines = [line for line in lab.programs.log("node").splitlines() if line]
    assert all(line.startswith('{"time": "') and line.endswith("}") for line in lines)
    assert any('"message": "stopping"' in line for line in lines)
