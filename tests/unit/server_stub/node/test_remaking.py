"""Results whose files are gone: computed again, or said; no job is called done without them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.wire.messages.job import JobInfo, OutputSave
from tests.helpers.lab import row_sums, until
from tests.unit.server_stub.node.test_resuming import Case, lab_case

__all__: list[str] = []


def change(root: Path, *statements: str) -> None:
    with closing(sqlite3.connect(root / "state" / "node.sqlite")) as rows:
        for statement in statements:
            rows.execute(statement)
        rows.commit()


def restored(root: Path) -> None:
    """As `gpugoblin node restore` leaves the database."""
    change(root, "insert into meta values('restored', '1')")


def half(case: Case, place: Path | None) -> JobInfo:
    kind = place.suffix[1:] if place else "node"
    saves = (OutputSave(kind, str(place)),) if place else (OutputSave(),)  # type: ignore[arg-type]
    job = case.submit(outputs=saves)
    until(lambda: case.lab.job(job.job).used >= 3)
    return job


def unfinished(case: Case, job: JobInfo) -> Path:
    return Path(case.lab.node.read("select path from array where job = ?", job.job)[0][0])


def again(case: Case, before: Case) -> None:
    """The same job in the next life of the node."""
    case.a, case.b, case.inputs = before.a, before.b, before.inputs
    case.workers.goes_on = True


def remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()


@pytest.mark.parametrize("name", ["c.npy", "c.zarr", "c.safetensors", ""])
def test_after_a_restore_a_result_that_is_gone_begins_anew(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with lab_case(tmp_path) as case:
        job = half(case, out / name if name else None)
        place = unfinished(case, job)
    remove(place)
    restored(tmp_path)
    with lab_case(tmp_path) as later:
        again(later, case)
        done = later.lab.wait(later.lab.job("c"))
        assert (done.job, done.state, done.error_text) == (job.job, "done", "")
        assert done.verified == done.used == done.tasks == later.workers.computed
        found = later.lab.result(done.outputs[0])
        np.testing.assert_allclose(found, case.a @ case.b, rtol=1e-4, atol=1e-4)
        assert later.lab.node.read("select 1 from meta where key = 'restored'") == []
    assert [path.name for path in out.iterdir()] == ([name] if name else [])


def test_where_a_disk_is_not_mounted_nothing_verified_is_thrown_away(tmp_path: Path) -> None:
    out, away = tmp_path / "out", tmp_path / "away"
    out.mkdir()
    with lab_case(tmp_path) as case:
        job = half(case, out / "c.npy")
    out.rename(away)
    out.mkdir()
    with lab_case(tmp_path) as later:
        again(later, case)
        failed = later.lab.job(job.job)
        assert (failed.state, failed.error_code, failed.verified) == ("failed", "result_gone", 3)
        assert list(out.iterdir()) == []
        out.rmdir()
        away.rename(out)
        resumed = later.submit(outputs=(OutputSave("npy", str(out / "c.npy")),))
        assert (resumed.job, resumed.verified) == (job.job, 3)
        assert later.lab.wait(resumed).state == "done"
        assert later.workers.computed == job.tasks - 3
    np.testing.assert_allclose(np.load(out / "c.npy"), case.a @ case.b, rtol=1e-4, atol=1e-4)


def test_where_no_file_can_be_made_the_job_says_so(tmp_path: Path) -> None:
    place = tmp_path / "out" / "c.npy"
    place.parent.mkdir()
    with lab_case(tmp_path) as case:
        job = half(case, place)
    remove(place.parent)
    restored(tmp_path)
    with lab_case(tmp_path) as later:
        failed = later.lab.job(job.job)
        assert (failed.state, failed.error_code) == ("failed", "disk_failed")
        assert str(place.parent) in failed.error_text
        assert not place.parent.exists()


def unsay(root: Path, place: Path) -> None:
    """As a crash before the last row: the result has its name, and no row says so."""
    temporary = place.with_name(f".{place.name}.result_" + "a" * 26)
    change(
        root,
        "update job set state = 'running', finished_s = null",
        f"update array set complete = 0, path = '{temporary}' where job is not null",  # noqa: S608 - a test's own path
    )


@pytest.fixture
def named(tmp_path: Path) -> tuple[Case, JobInfo]:
    with lab_case(tmp_path) as case:
        case.workers.goes_on = True
        done = case.lab.wait(case.submit(outputs=(OutputSave("npy", str(case.place)),)))
        assert done.state == "done"
    unsay(tmp_path, case.place)
    return case, done


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("what", ["whole", "gone", "other", "cut"])
def test_done_is_said_only_of_what_is_there(
    tmp_path: Path, named: tuple[Case, JobInfo], what: str, is_restored: bool
) -> None:
    case, job = named
    if what == "gone":
        case.place.unlink()
    elif what != "whole":
        data = bytearray(case.place.read_bytes())
        data[-3] ^= 1
        case.place.write_bytes(data if what == "other" else data[:-1])
    if is_restored:
        restored(tmp_path)
    with lab_case(tmp_path) as later:
        again(later, case)
        ended = later.lab.wait(later.lab.job(job.job))
    if what == "whole" or (what == "gone" and is_restored):
        assert (ended.state, ended.error_text) == ("done", "")
        assert later.workers.computed == (0 if what == "whole" else job.tasks)
        np.testing.assert_allclose(np.load(case.place), case.a @ case.b, rtol=1e-4, atol=1e-4)
    else:  # what stands there is not ours to replace
        code = "array_exists" if is_restored else "result_gone"
        assert (ended.state, ended.error_code) == ("failed", code)


def test_a_result_without_a_number_is_there_too(tmp_path: Path) -> None:
    place = tmp_path / "empty.npy"
    with lab_case(tmp_path) as case:
        array = case.lab.file(np.empty((0, 4), np.float32), "v.npy")
        job = case.lab.wait(
            case.lab.submit(row_sums((0, 4)), array, outputs=(OutputSave("npy", str(place)),))
        )
        assert job.state == "done"
    place.unlink()
    unsay(tmp_path, place)
    restored(tmp_path)
    with lab_case(tmp_path) as later:
        assert later.lab.wait(later.lab.job(job.job)).state == "done"
    assert np.load(place).shape == (0,)
