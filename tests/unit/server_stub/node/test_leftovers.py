"""What a crash left behind goes at the next start, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import StoreError
from gpugoblin.wire.messages.job import OutputSave
from server_stub.node import leftovers, results
from server_stub.node.state import jobs, places
from server_stub.node.upkeep import Upkeep
from tests.helpers.lab import Lab, refused, row_sums
from tests.helpers.node import LabNode

__all__: list[str] = []

NAME = "abcdefghijklmnopqrstuvwxyz"


def crash(*_: object, **__: object) -> None:
    """Ends a request as a kill would: nothing after it happens, nothing is put right."""
    raise RuntimeError("a crash")


def noted(node: LabNode) -> dict[str, list[str]]:
    rows = node.read("select value from meta where key like 'place:%'")
    return {text: json.loads(text) for (text,) in rows}


def submitted(lab: Lab, path: Path) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    lab.submit(row_sums((4, 4)), array, outputs=(OutputSave("npy", str(path)),))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_result_whose_job_never_came_to_be_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("mine.npy", f".other.npy.result_{NAME}", ".sums.npy.result_short"):
        (out / name).write_bytes(b"mine")
    with LabNode(tmp_path) as node, monkeypatch.context() as patch:
        lab = Lab(node, tmp_path)
        patch.setattr(jobs, "submit", crash)
        refused("internal", lambda: submitted(lab, out / "sums.npy"))
        lab.client.close()
    assert len(names(out)) == 4
    (tmp_path / "state" / "arrays" / "array_nobodys.npy").write_bytes(b"x")
    with LabNode(tmp_path) as node:
        kept = [f".other.npy.result_{NAME}", ".sums.npy.result_short", "mine.npy"]
        assert names(out) == sorted(kept)
        assert names(tmp_path / "state" / "arrays") == []
        assert noted(node) == {}


def test_running_and_finished_results_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with LabNode(tmp_path) as node:
        lab = Lab(node, tmp_path)
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        kept = lab.wait(lab.submit(row_sums((4, 4)), array))
        submitted(lab, out / "sums.npy")
        before = names(out), names(tmp_path / "state" / "arrays")
        node.call(leftovers.sweep(node.node))
        assert (names(out), names(tmp_path / "state" / "arrays")) == before
        assert lab.result(kept.outputs[0]).tolist() == [4.0] * 4
        assert noted(node) == {}
        lab.client.close()


def test_a_submission_that_is_refused_leaves_no_note(tmp_path: Path) -> None:
    (tmp_path / "there.npy").write_bytes(b"mine")
    with LabNode(tmp_path) as node:
        lab = Lab(node, tmp_path)
        refused("array_exists", lambda: submitted(lab, tmp_path / "there.npy"))
        assert noted(node) == {}
        lab.client.close()


def test_a_deleted_jobs_results_go_even_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with LabNode(tmp_path) as node, monkeypatch.context() as patch:
        lab = Lab(node, tmp_path)
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        saves = (OutputSave("npy", str(out / "sums.npy")),)
        node.workers.hold = node.call(_event())
        job = lab.submit(row_sums((4, 4)), array, outputs=saves)
        patch.setattr(results, "discard", crash)
        path = f"/v1/jobs/{job.job}"
        refused("internal", lambda: lab.client.fetch("DELETE", path, max_bytes=1 << 16))
        lab.client.close()
    assert len(names(out)) == 1
    with LabNode(tmp_path):
        assert names(out) == []


async def _event() -> object:
    import asyncio

    return asyncio.Event()


def test_what_cannot_be_deleted_is_tried_again_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f".c.npy.result_{NAME}"
    path.write_bytes(b"x")
    with LabNode(tmp_path) as node, monkeypatch.context() as patch:
        node.call(node.node.handle(lambda step: places.note(step, [str(tmp_path / "c.npy")])))

        def fails(*_: object) -> None:
            raise StoreError("disk_failed", path=str(path), reason="no")

        patch.setattr(leftovers, "discard", fails)
        node.call(leftovers.sweep(node.node))
        assert len(noted(node)) == 1
    assert path.exists()
    with LabNode(tmp_path) as node:
        assert not path.exists()


def test_parts_of_results_that_nobody_awaits_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(upkeep: Upkeep) -> None:
        """The node's own round must not come first."""

    monkeypatch.setattr(Upkeep, "_tidy", nothing)
    with LabNode(tmp_path) as node:
        blobs = node.node.blobs
        for key in ("lease_dead-0", "lease_live-0"):
            with blobs.upload(key, 100) as upload:
                upload.write(0, b"x" * 10)
        live = (
            "insert into lease(id, task, job, role, device, owner, bucket, grant_id, state,"
            " issued_s, until_s) values('lease_live', 1, 'j', 'first', 'd', 'o', 'b', 'g',"
            " 'committed', 0, 1e12)"
        )
        node.call(node.node.handle(lambda step: step.tx.change(live)))
        assert node.call(leftovers.drop_uploads(node.node)) == 1
        assert list(blobs.uploads()) == ["lease_live-0"]
        assert node.call(leftovers.drop_uploads(node.node)) == 0
