"""The process of the node: trouble while it runs, restarts, what it refuses at its start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.errors import EngineError, NodeError, StoreError, WireError
from server_stub.node.service import open_state
from server_stub.node.state import blobs
from server_stub.node.work import Compute
from tests.helpers.lab import (
    DISK_FULL,
    Lab,
    died,
    free_port,
    gate,
    row_sums,
    until,
)
from tests.helpers.node import LabNode, lab_settings

__all__: list[str] = []


def test_a_full_disk_is_waited_for_and_loses_nothing(lab: Lab) -> None:
    refusals: list[int] = []

    def meddle(item: Any) -> StoreError | None:
        if isinstance(item, Compute) and not refusals:
            refusals.append(1)
            return StoreError("disk_full", **DISK_FULL)
        return None

    lab.node.workers.meddle = meddle
    lab.node.node.local._retry_s = 0.05
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.submit(row_sums((4, 4)), array)
    job = lab.wait(job)
    assert job.state == "done"
    assert refusals
    assert job.error_code == ""


def test_an_engine_that_dies_is_tried_again_then_the_job_fails(lab: Lab) -> None:
    def meddle(item: Any) -> EngineError | None:
        if isinstance(item, Compute):
            return died()
        return None

    lab.node.workers.meddle = meddle
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    assert job.state == "failed"
    assert job.error_code == died().code
    assert job.error_text
    assert job.lost.abandoned == 0


def test_a_restart_goes_on_where_the_node_stopped(tmp_path: Path) -> None:
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        node.workers.hold = node.call(gate())
        job = lab.submit(row_sums((5, 4)), lab.file(values, "v.npy"), name="long")
        until(lambda: lab.job("long").leased == 1)
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        done = lab.wait(lab.job("long"))
        assert (done.job, done.state) == (job.job, "done")
        np.testing.assert_allclose(lab.result(done.outputs[0]), values.sum(1))


def test_a_blob_that_no_row_names_goes_at_the_start(tmp_path: Path) -> None:
    with LabNode(tmp_path) as node:
        store = node.workers.store
        named, orphan = store.put(b"named"), store.put(b"orphan")
        node.call(node.node.handle(lambda step: blobs.hold(step, named, 5)))
        assert store.has(orphan)
    with LabNode(tmp_path) as node:
        assert list(node.workers.store.names()) == [named]


def test_a_second_node_on_the_same_state_is_refused(lab: Lab) -> None:
    with pytest.raises(NodeError) as caught:
        open_state(lab.node.settings)
    assert caught.value.code == "state_dir_taken"


def test_a_port_in_use_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NodeError) as caught, LabNode(tmp_path, listen_port=port):
            pass
    assert caught.value.code == "address_in_use"
    assert not (lab_settings(tmp_path).database).exists()


def test_nothing_of_an_array_is_imported_at_the_door() -> None:
    """The HTTP layer itself needs no engine, no sandbox and no array library beyond the planner."""

    code = (
        "import sys, server_stub.node.service;"
        "print([m for m in ('zarr', 'torch', 'PySide6', 'app.engine.child', 'cupy')"
        " if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"


def code_of_start(root: Path, **settings: Any) -> str:
    """Why a node does not start on this state directory."""
    with pytest.raises((NodeError, WireError)) as caught, LabNode(root, **settings):
        pass
    assert caught.value.next_step
    return caught.value.code


@pytest.mark.parametrize("how", ["cut", "noise"])
def test_a_damaged_database_is_said_and_left_alone(tmp_path: Path, how: str) -> None:
    with LabNode(tmp_path) as node:
        path = node.settings.database
    data = path.read_bytes()
    damaged = data[: len(data) // 2] if how == "cut" else os.urandom(len(data))
    path.write_bytes(damaged)
    assert code_of_start(tmp_path) == "database_damaged"
    assert path.read_bytes() == damaged
    path.write_bytes(data)
    with LabNode(tmp_path):
        pass


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_without_its_database_a_node_deletes_nothing(tmp_path: Path, how: str) -> None:
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        assert lab.wait(lab.submit(row_sums((4, 4)), array)).state == "done"
    path, arrays = node.settings.database, node.settings.arrays_root
    (result,) = arrays.iterdir()
    path.unlink()
    if how == "empty":
        path.touch()
    assert code_of_start(tmp_path) == "database_missing"
    assert result.exists()
    arrays.rename(tmp_path / "away")
    with LabNode(tmp_path):
        pass


@pytest.mark.parametrize("name", ["tls.key", "tls.crt", "node.key"])
def test_a_damaged_key_or_certificate_is_said(tmp_path: Path, name: str) -> None:
    settings = {"listen_port": free_port()}
    with LabNode(tmp_path, **settings) as node:
        state = node.settings.state
    path = state / name
    path.write_bytes(path.read_bytes()[:40])
    expected = "key_file_unreadable" if name == "node.key" else "certificate_unreadable"
    assert code_of_start(tmp_path, **settings) == expected
