"""Files of results: made under another name, named at the end, deleted without one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GoblinError
from gpugoblin.wire.messages.job import OutputSave
from server_stub.node import results
from server_stub.node.state.arrays import ArrayRow, NewArray

__all__: list[str] = []

SPEC = TensorSpec("float32", (4, 3))


def row(new: NewArray) -> ArrayRow:
    return ArrayRow(**asdict(new), job="job_a", number=0)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("kind", ["npy", "safetensors", "zarr"])
def test_a_result_has_its_name_only_when_it_is_published(tmp_path: Path, kind: str) -> None:
    save = OutputSave(kind, str(tmp_path / f"c.{kind}"))  # type: ignore[arg-type]
    made = results.create(tmp_path, "ann", (save,), (SPEC,), (2, 3))
    assert f"c.{kind}" not in names(tmp_path)
    assert len(names(tmp_path)) == 1
    results.publish([row(made[0])])
    results.publish([row(made[0])])
    assert names(tmp_path) == [f"c.{kind}"]


def test_a_result_of_the_node_is_its_own_file(tmp_path: Path) -> None:
    made = results.create(tmp_path, "ann", (OutputSave(),), (SPEC,), ())
    results.publish([row(made[0])])
    assert names(tmp_path) == [f"{made[0].id}.npy"]
    assert np.load(tmp_path / f"{made[0].id}.npy").shape == (4, 3)


def test_after_a_failure_no_file_is_left(tmp_path: Path) -> None:
    (tmp_path / "b.npy").write_bytes(b"mine")
    saves = (
        OutputSave("npy", str(tmp_path / "a.npy")),
        OutputSave("npy", str(tmp_path / "b.npy")),
    )
    with pytest.raises(GoblinError) as caught:
        results.create(tmp_path, "ann", saves, (SPEC, SPEC), ())
    assert caught.value.code == "array_exists"
    assert names(tmp_path) == ["b.npy"]


def test_overwriting_keeps_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "c.npy"
    np.save(path, np.zeros(1))
    save = OutputSave("npy", str(path), overwrite=True)
    made = results.create(tmp_path, "ann", (save,), (SPEC,), ())
    assert np.load(path).shape == (1,)
    results.publish([row(made[0])])
    assert np.load(path).shape == (4, 3)


def test_a_researchers_finished_file_is_never_deleted(tmp_path: Path) -> None:
    from dataclasses import replace

    save = OutputSave("npy", str(tmp_path / "c.npy"))
    made = results.create(tmp_path, "ann", (save, OutputSave()), (SPEC, SPEC), ())
    rows = [row(new) for new in made]
    results.publish(rows)
    done = [replace(one, path=one.final_path) for one in rows]
    results.discard(done, finished=True)
    assert names(tmp_path) == ["c.npy"]


def test_an_unfinished_one_is(tmp_path: Path) -> None:
    save = OutputSave("npy", str(tmp_path / "c.npy"))
    made = results.create(tmp_path, "ann", (save, OutputSave()), (SPEC, SPEC), ())
    results.discard([row(new) for new in made])
    results.discard([row(new) for new in made])
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "local", "code"),
    [
        ("relative.npy", True, "output_path"),
        ("/no/such/directory/c.npy", True, "output_path"),
        ("/tmp/a\0b", True, "output_path"),
        ("/tmp/c.npy", False, "file_not_local"),
    ],
)
def test_places_that_cannot_be(tmp_path: Path, path: str, local: bool, code: str) -> None:
    with pytest.raises(GoblinError) as caught:
        results.check_places((OutputSave("npy", path),), tmp_path / "state", local=local)
    assert caught.value.code == code


def test_two_results_cannot_be_in_one_place(tmp_path: Path) -> None:
    save = OutputSave("npy", str(tmp_path / "c.npy"))
    with pytest.raises(GoblinError) as caught:
        results.check_places((save, save), tmp_path / "state", local=True)
    assert caught.value.code == "output_path"
    results.check_places((OutputSave(), OutputSave()), tmp_path / "state", local=False)


@pytest.mark.parametrize("way", ["straight", "dots", "link", "member"])
def test_the_nodes_own_directory_is_nobodys_array(tmp_path: Path, way: str) -> None:
    """Any local user could else read the node's key, or replace its database."""
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "link").symlink_to(state)
    path, member = {
        "straight": (state / "node.key", ""),
        "dots": (tmp_path / "x" / ".." / "state" / "node.key", ""),
        "link": (tmp_path / "link" / "node.key", ""),
        "member": (tmp_path / "a.zarr", "../state"),
    }[way]
    with pytest.raises(GoblinError) as error:
        results.require_outside(state, str(path), member)
    assert error.value.code == "output_path"
    results.require_outside(state, str(tmp_path / "a.zarr"), "group/x")
    if not member:
        with pytest.raises(GoblinError):
            results.check_places((OutputSave("npy", str(path)),), state, local=True)
