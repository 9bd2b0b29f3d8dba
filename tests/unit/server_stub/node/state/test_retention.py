"""Caches go when they are old or too many, never under a reader; what is durable stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpugoblin.wire.messages.job import ArrayInfo, JobInfo, OutputSave
from server_stub.node import leftovers
from server_stub.node.keeping.collect import caches
from server_stub.node.state import quotas, retention
from tests.helpers.lab import Lab, gate, refused, row_sums

__all__: list[str] = []

CACHE = OutputSave(retention="cache")
DAY_S = 24 * 3600.0


@pytest.fixture
def values() -> np.ndarray:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def source(lab: Lab, values: np.ndarray) -> ArrayInfo:
    return lab.file(values, "v.npy")


def done(lab: Lab, source: ArrayInfo, save: OutputSave = CACHE, name: str = "sums") -> JobInfo:
    return lab.wait(lab.submit(row_sums((3, 4)), source, outputs=(save,), name=name))


def stored(lab: Lab) -> list[str]:
    return sorted(path.stem for path in lab.node.settings.arrays_root.iterdir())


def drop(lab: Lab, **limits: float | None) -> bool:
    given = retention.Limits(**limits)  # type: ignore[arg-type]  # names of fields, whole numbers
    return lab.node.call(leftovers.drop_caches(lab.node.node, limits=given))


def last_read(lab: Lab, job: JobInfo, ago_s: float) -> None:
    now_s = lab.node.node.clock.wall_s()
    lab.node.call(lab.node.node.handle(lambda step: step.tx.change(
        "update array set read_s = ? where id = ?", (now_s - ago_s, job.outputs[0].array)
    )))  # fmt: skip


def test_a_cache_that_is_gone_says_so_and_is_computed_again(
    lab: Lab, source: ArrayInfo, values: np.ndarray
) -> None:
    kept, cached = done(lab, source, OutputSave(), "kept"), done(lab, source)
    assert cached.job != kept.job
    lab.result(cached.outputs[0])
    assert drop(lab, nbytes=0)
    assert stored(lab) == [kept.outputs[0].array]
    np.testing.assert_array_equal(lab.result(kept.outputs[0]), values.sum(1))
    told = refused("result_collected", lambda: lab.result(cached.outputs[0]))
    assert cached.job in told.what
    path = f"/v1/jobs/{cached.job}/outputs.safetensors"
    refused("result_collected", lambda: lab.client.fetch("GET", path, max_bytes=1 << 20))
    refused("result_collected", lambda: done_from(lab, cached.outputs[0]))
    assert lab.job(cached.job).state == "done"
    again = done(lab, source)
    assert (again.attached, again.state) == (False, "done")
    assert again.job != cached.job
    np.testing.assert_array_equal(lab.result(again.outputs[0]), values.sum(1))
    assert done(lab, source).job == again.job


def done_from(lab: Lab, output: ArrayInfo) -> JobInfo:
    """A job that reads a result of an earlier one."""
    return lab.submit(row_sums((3,)), output, name="next")


def test_age_counts_from_the_last_read_and_size_from_the_oldest(
    lab: Lab, source: ArrayInfo
) -> None:
    old, new = done(lab, source, name="old"), done(lab, source, name="new")
    last_read(lab, old, 3 * DAY_S)
    last_read(lab, new, 2 * DAY_S)
    assert not drop(lab, age_s=4 * DAY_S)
    assert not drop(lab, nbytes=24)  # twice three numbers of four bytes
    lab.result(old.outputs[0])  # it is the one read last now
    assert drop(lab, nbytes=12)
    assert stored(lab) == [old.outputs[0].array]
    assert not drop(lab, age_s=DAY_S)
    last_read(lab, old, 3 * DAY_S)
    assert drop(lab, age_s=DAY_S)
    assert stored(lab) == []
    assert retention.Limits.of(0, 0) == retention.Limits(None, None)
    assert retention.Limits.of(2, 7) == retention.Limits(2 * DAY_S, 7)


def test_what_an_unfinished_job_reads_stays(lab: Lab, source: ArrayInfo) -> None:
    cached = done(lab, source)
    lab.node.workers.hold = lab.node.call(gate())
    reader = done_from(lab, cached.outputs[0])
    assert not drop(lab, nbytes=0)
    lab.node.loop.call_soon_threadsafe(lab.node.workers.hold.set)
    assert lab.wait(reader).state == "done"
    assert drop(lab, nbytes=0)


def test_who_wants_a_cache_kept_has_it_kept(lab: Lab, source: ArrayInfo) -> None:
    cached = done(lab, source)
    assert done(lab, source).job == cached.job
    assert done(lab, source, OutputSave()).job == cached.job
    assert not drop(lab, nbytes=0)


def test_a_named_file_is_no_cache(lab: Lab, source: ArrayInfo) -> None:
    save = OutputSave("npy", str(lab.root / "c.npy"), retention="cache")
    refused("output_path", lambda: done(lab, source, save))


def test_caches_make_way_for_a_job_over_the_quota(lab: Lab, source: ArrayInfo) -> None:
    cached = done(lab, source)
    owner = cached.owner
    limits = quotas.Limits(disk_bytes=12)
    lab.node.call(lab.node.node.handle(lambda step: quotas.set_limits(step.tx, owner, limits)))
    kept = done(lab, source, OutputSave(), "kept")
    assert stored(lab) == [kept.outputs[0].array]
    refused("quota_disk", lambda: done(lab, source))


def test_the_command_shows_and_deletes_them(lab: Lab, source: ArrayInfo) -> None:
    cached = done(lab, source)
    settings = lab.node.settings
    assert caches(settings, retention.Limits(age_s=DAY_S), delete=True) == []
    (shown,) = caches(settings, retention.NOTHING, delete=False)
    assert shown.path == settings.arrays_root / f"{cached.outputs[0].array}.npy"
    assert Path(shown.path).exists()
    assert caches(settings, retention.NOTHING, delete=True) == [shown]
    assert stored(lab) == []
    refused("result_collected", lambda: lab.result(cached.outputs[0]))
