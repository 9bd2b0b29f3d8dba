"""Sessions: connecting, what is sent, what is said, uploads that go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from safetensors.numpy import load_file, save_file

import gpugoblin as gg
from gpugoblin.capture.runner import CURRENT
from gpugoblin.client.job import Job
from gpugoblin.client.notices import GRID
from gpugoblin.client.session import Session, connect
from gpugoblin.client.submitting import UPLOAD_BYTES
from gpugoblin.errors import ClientError, StoreError
from gpugoblin.wire.remote import RemoteError
from tests.helpers.fake_node import FakeNode

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def far() -> Iterator[FakeNode]:
    """A node that is reached over the network (loopback HTTP)."""
    with FakeNode() as node:
        node.token = "secret"
        yield node


@pytest.fixture
def remote(far: FakeNode) -> Iterator[Session]:
    with connect(far.address, token="secret") as session:
        yield session


def submits(node: FakeNode) -> int:
    return node.requests.count("POST /v1/jobs")


def test_nothing_connected_and_nothing_configured() -> None:
    with pytest.raises(ClientError) as caught:
        gg.array([1]).sum().compute()
    assert caught.value.code == "not_connected"
    with pytest.raises(ClientError, match="not_connected"):
        connect()
    with pytest.raises(ClientError, match="not_connected"):
        gg.jobs()


def test_the_configuration_names_the_node(node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "client.toml").write_text(f'node = "{node.address}"\n')
    with connect() as session:
        assert session.address == node.address
        assert node.address in repr(session)
        assert gg.array([1, 2]).sum().compute() == 3


def test_the_last_session_is_in_use(node: FakeNode, short_path: Path) -> None:
    with FakeNode(short_path / "b") as second:
        with connect(node.address) as outer:
            with connect(second.address):
                gg.array([1]).sum().compute()
            gg.array([1]).sum().compute()
            assert CURRENT.get() is outer
        assert submits(node) == submits(second) == 2


def test_an_address_that_is_none() -> None:
    with pytest.raises(ClientError, match="address_malformed"):
        connect("lab:80", token="t")
    with pytest.raises(ClientError, match="token_missing"):
        connect("https://lab:80")


def test_something_else_at_the_address(node: FakeNode) -> None:
    node.spoil["/v1/health"] = [(200, b"<html>")]
    with pytest.raises(ClientError) as caught:
        connect(node.address)
    assert caught.value.code == "reply_unexpected"


def test_files_stay_where_they_are_on_one_machine(
    lab: Session, node: FakeNode, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    save_file({"x": NUMBERS}, tmp_path / "a.safetensors")
    zarr.create_array(store=tmp_path / "a.zarr", data=NUMBERS, chunks=(2, 2))
    opened = [gg.open(tmp_path / f"a.{kind}") for kind in ("npy", "safetensors", "zarr")]
    np.testing.assert_array_equal((opened[0] + opened[1] + opened[2]).compute(), 3 * NUMBERS)
    assert not any(request.startswith("PUT") for request in node.requests)
    assert {array.create.source for array in node.arrays.values()} == {
        "npy",
        "safetensors",
        "zarr",
    }


def test_files_are_sent_to_another_machine(remote: Session, far: FakeNode, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(NUMBERS))
    save_file({"x": NUMBERS}, tmp_path / "a.safetensors")
    zarr.create_array(store=tmp_path / "a.zarr", data=NUMBERS, chunks=(2, 2))
    opened = [gg.open(tmp_path / f"a.{kind}") for kind in ("npy", "safetensors", "zarr")]
    for array in opened:
        np.testing.assert_array_equal((array + 0).compute(), NUMBERS)
    assert {array.create.source for array in far.arrays.values()} == {"upload"}
    assert all(array.create.path == "" for array in far.arrays.values())


def test_without_zarr_a_zarr_array_cannot_be_sent(
    remote: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr.create_array(store=tmp_path / "a.zarr", data=NUMBERS, chunks=(2, 2))
    monkeypatch.setitem(sys.modules, "zarr", None)
    x = gg.open(tmp_path / "a.zarr")
    with pytest.raises(ClientError, match="pip install zarr"):
        x.sum().compute()
    with pytest.raises(ClientError, match="package_missing"):
        gg.array(NUMBERS).save(tmp_path / "b.zarr", name="b").wait()
    assert not (tmp_path / "b.zarr").exists()


def test_an_upload_goes_on_where_it_stopped(remote: Session, far: FakeNode) -> None:
    numbers = np.arange(3 * UPLOAD_BYTES // 4 + 10, dtype=np.float32)
    path = "/v1/arrays/array"
    far.spoil[path] = [(500, b"")]
    with pytest.raises(ClientError):
        gg.array(numbers).sum().compute()
    (array,) = far.arrays.values()
    assert array.info.stored_bytes == 0
    array.data += numbers.tobytes()[: UPLOAD_BYTES + 100]
    array.info = type(array.info)(
        array=array.info.array, dtype="float32", shape=numbers.shape,
        stored_bytes=UPLOAD_BYTES + 100, complete=False, verified=True,
    )  # fmt: skip
    far.requests.clear()
    gg.array(numbers).sum().compute()
    assert sum(request.startswith("PUT") for request in far.requests) == 3
    np.testing.assert_array_equal(array.numbers, numbers)


def test_an_array_is_sent_once(lab: Session, node: FakeNode) -> None:
    x = gg.array(NUMBERS)
    x.sum().compute()
    x.max().compute()
    assert sum(request.startswith("PUT") for request in node.requests) == 1


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_small_and_empty_arrays(lab: Session, shape: tuple[int, ...]) -> None:
    numbers = np.ones(shape, np.int64)
    np.testing.assert_array_equal((gg.array(numbers) + 1).compute(), numbers + 1)


def test_an_array_that_changed_is_found(lab: Session) -> None:
    numbers = NUMBERS.copy()
    x = gg.array(numbers)
    numbers[0, 0] = 5
    with pytest.raises(ClientError) as caught:
        x.sum().compute()
    assert caught.value.code == "array_changed"
    assert "test_session.py" in str(caught.value)


def test_a_file_that_changed_is_found(lab: Session, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    x = gg.open(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", NUMBERS + 1)
    with pytest.raises(StoreError, match="file_changed"):
        x.sum().compute()


def test_what_is_submitted(lab: Session, node: FakeNode, tmp_path: Path) -> None:
    where = gg.where(min_memory="1GB")
    gg.array(NUMBERS).sum().save(
        tmp_path / "s.npy", name="s", where=where, priority=3, force=True, executor="local"
    )
    message = node.job("s").submit
    assert (message.executor, message.priority, message.force) == ("local", 3, True)
    assert message.constraints.min_memory_bytes == 10**9
    assert message.outputs[0].path == str(tmp_path / "s.npy")
    assert (message.outputs[0].format, message.numeric_class) == ("npy", "float32")
    assert "test_session.py" in message.input_names[0]
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), NUMBERS.sum())


def test_integers_alone_are_computed_exactly(lab: Session, node: FakeNode) -> None:
    gg.array([1, 2]).sum().save(name="i")
    assert node.job("i").submit.numeric_class == "exact"


def test_map_blocks_names_its_axis(lab: Session, node: FakeNode) -> None:
    gg.map_blocks(lambda x: x + 1, NUMBERS, axis=-1).save(name="b")
    assert node.job("b").submit.block_axis == 1


def test_options_that_cannot_be(lab: Session) -> None:
    for options in ({"priority": 1000}, {"executor": "cloud"}, {"name": "x" * 300}, {"where": 3}):
        with pytest.raises(ClientError, match="option_refused") as caught:
            gg.array([1]).sum().save(**options)  # type: ignore[arg-type]
        (name,) = options
        assert ("constraints" if name == "where" else name) in caught.value.what


def test_the_same_name_and_content_attaches(lab: Session, node: FakeNode) -> None:
    x = gg.array(NUMBERS)
    first = x.sum().save(name="s")
    second = gg.array(NUMBERS.copy()).sum().save(name="s")
    assert isinstance(first, Job)
    assert isinstance(second, Job)
    assert (first.attached, second.attached) == (False, True)
    assert first.id == second.id
    with pytest.raises(RemoteError, match="job_name_taken"):
        x.max().save(name="s")
    third = x.max().save(name="s", overwrite=True)
    assert isinstance(third, Job)
    assert third.id != first.id
    assert len(gg.jobs()) == 1


def test_a_job_without_a_name_is_named_by_its_content(lab: Session, node: FakeNode) -> None:
    x = gg.array(NUMBERS)
    assert x.sum().save().name == x.sum().save().name
    assert x.sum().save().name != x.max().save().name


def test_compute_leaves_nothing_behind_unless_named(lab: Session, node: FakeNode) -> None:
    gg.array(NUMBERS).sum().compute()
    assert node.jobs == {}
    gg.array(NUMBERS).sum().compute(name="kept")
    assert [job.name for job in gg.jobs()] == ["kept"]


def test_what_contributors_see_is_said_before_the_first_job_that_leaves(
    lab: Session, node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.grid = True
    x = gg.array(NUMBERS)
    x.sum().save(name="a", executor="local")
    assert capsys.readouterr().err == ""
    x.max().save(name="b")
    assert capsys.readouterr().err == f"{GRID}\n"
    x.min().save(name="c", executor="grid")
    assert capsys.readouterr().err == ""


def test_the_notice_comes_first(
    lab: Session, node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.spoil["/v1/jobs"] = [(418, json.dumps({"code": "not_confirmed", "what": "No."}).encode())]
    with pytest.raises(RemoteError, match="not_confirmed"):
        gg.array(NUMBERS).sum().save(executor="grid")
    assert capsys.readouterr().err == f"{GRID}\n"


@pytest.mark.parametrize("path", ["a.txt", "a", "nowhere/a.npy"])
def test_targets_that_cannot_be(lab: Session, node: FakeNode, tmp_path: Path, path: str) -> None:
    with pytest.raises(ClientError, match="target_malformed"):
        gg.array(NUMBERS).save(tmp_path / path)
    assert submits(node) == 0


@pytest.mark.parametrize("kind", ["npy", "safetensors", "zarr"])
def test_a_result_of_another_machine_is_written_here(
    remote: Session, far: FakeNode, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"r.{kind}"
    (gg.array(NUMBERS) * 2).save(path, name="r").wait()
    assert far.job("r").submit.outputs[0].format == "node"
    assert far.job("r").submit.outputs[0].path == ""
    if kind == "npy":
        found = np.load(path)
    elif kind == "safetensors":
        found = load_file(path)["output"]
    else:
        found = np.asarray(zarr.open_array(path, mode="r")[...])
    np.testing.assert_array_equal(found, NUMBERS * 2)
    assert [entry.name for entry in tmp_path.iterdir()] == [f"r.{kind}"]
    with pytest.raises(StoreError, match="it is there already"):
        (gg.array(NUMBERS) * 2).save(path, name="r").wait()
    (gg.array(NUMBERS) * 3).save(path, name="r", overwrite=True).wait()


def test_several_results_are_one_job(lab: Session, node: FakeNode) -> None:
    values, positions = gg.topk(NUMBERS, 2)
    job = gg.save((values, positions), name="top")
    assert [array.shape for array in job.arrays] == [(3, 2), (3, 2)]
    top, where = gg.compute(values, positions)
    np.testing.assert_array_equal(top, [[3, 2], [7, 6], [11, 10]])
    np.testing.assert_array_equal(where, [[3, 2]] * 3)
