"""Results on the node: read by parts, written whole or not at all (see also test_job.py)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.client.result import ResultArray
from gpugoblin.client.session import Session
from gpugoblin.client.submitting import Target
from gpugoblin.errors import StoreError
from gpugoblin.wire.remote import RemoteError
from tests.helpers.fake_node import FakeNode

NUMBERS = np.arange(6, dtype=np.int64).reshape(2, 3)


@pytest.fixture
def result(lab: Session) -> ResultArray:
    array = (gg.array(NUMBERS) * 2).save(name="r").array
    assert isinstance(array, ResultArray)
    return array


def test_its_facts(result: ResultArray) -> None:
    assert (result.shape, result.dtype, result.ndim, result.nbytes, len(result)) == (
        (2, 3), np.dtype("int64"), 2, 48, 2,
    )  # fmt: skip
    assert repr(result) == "<result int64[2, 3] of job 'r'>"
    np.testing.assert_array_equal(result.numpy(), NUMBERS * 2)
    np.testing.assert_array_equal(np.asarray(result, dtype=np.float64), NUMBERS * 2.0)


def test_a_result_without_axes_has_no_length(lab: Session) -> None:
    array = gg.array(NUMBERS).sum().save(name="s").array
    with pytest.raises(TypeError):
        len(array)
    assert array[()] == 15


def test_lazy_results_have_names_of_their_content(result: ResultArray, lab: Session) -> None:
    source = result.lazy().value.node.source
    assert source is not None
    other = (gg.array(NUMBERS) * 3).save(name="t").array.lazy().value.node.source
    again = lab.get("r").array.lazy().value.node.source
    assert again is not None
    assert again.fingerprint == source.fingerprint != other.fingerprint
    assert source.name == "r"


def test_what_goes_wrong_leaves_no_file(
    result: ResultArray, node: FakeNode, tmp_path: Path
) -> None:
    target = Target("npy", str(tmp_path / "a.npy"))
    node.spoil["/v1/arrays"] = [(409, b'{"code": "region_not_verified", "what": "No."}')]
    with pytest.raises(RemoteError, match="region_not_verified"):
        result.download(target, overwrite=False)
    assert list(tmp_path.iterdir()) == []
    result.download(target, overwrite=False)
    np.testing.assert_array_equal(np.load(target.path), NUMBERS * 2)


@pytest.mark.parametrize("kind", ["npy", "safetensors", "zarr"])
def test_a_file_that_is_there_stays(result: ResultArray, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_text("mine")
    with pytest.raises(StoreError) as caught:
        result.download(Target(kind, str(path)), overwrite=False)  # type: ignore[arg-type]
    assert caught.value.code == "file_unwritable"
    assert path.read_text() == "mine"


def test_a_full_disk_is_said(result: ResultArray) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError, match="No space left"), open("/dev/full", "wb", 0) as file:
        result._write_flat(file, "npy")


def test_a_directory_that_cannot_be_written_is_said(result: ResultArray) -> None:
    with pytest.raises(StoreError) as caught:
        result.download(Target("npy", "/proc/nothing/a.npy"), overwrite=False)
    assert caught.value.code == "file_unwritable"
    assert "overwrite" in caught.value.next_step
