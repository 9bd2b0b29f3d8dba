"""`fsck` and `gc` on the command line, beside a running node and without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from server_stub.node.commands import main
from server_stub.node.settings import template
from tests.helpers.lab import Lab, row_sums
from tests.helpers.node import LabNode, lab_settings

__all__: list[str] = []

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    values = {name: value for name, value in lab_settings(tmp_path).values.items() if value != ""}
    path.write_text(template(values))
    return path


def damaged(lab: Lab) -> Path:
    """A finished job whose result has one wrong byte."""
    job = lab.wait(lab.submit(row_sums((3, 4)), lab.file(VALUES, "v.npy"), name="sums"))
    ((text,),) = lab.node.read("select path from array where job = ?", job.job)
    data = bytearray(Path(text).read_bytes())
    data[-1] ^= 1
    Path(text).write_bytes(data)
    return Path(text)


def is_right(lab: Lab) -> None:
    done = lab.wait(lab.job("sums"))
    assert done.state == "done"
    np.testing.assert_allclose(lab.result(done.outputs[0]), VALUES.sum(1))


def test_a_running_node_makes_again_what_is_damaged(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        assert main(["fsck", "--config", str(config)]) == 0
        path = damaged(lab)
        capsys.readouterr()
        assert main(["fsck", "--dry-run", "--config", str(config)]) == 3
        said = capsys.readouterr().out
        assert f"damaged        {path}" in said
        assert "nothing was changed" in said
        assert lab.job("sums").state == "done"
        assert main(["fsck", "--config", str(config)]) == 3
        assert "computed again" in capsys.readouterr().out
        is_right(lab)
        assert main(["fsck", "--config", str(config)]) == 0
        assert "all is as it was stored" in capsys.readouterr().out


def test_without_a_node_it_is_marked_for_the_next_start(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        damaged(lab)
    assert main(["fsck", "--config", str(config)]) == 3
    assert "1 tasks" in capsys.readouterr().out
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        is_right(lab)


@pytest.mark.parametrize("runs", [True, False])
def test_a_result_whose_file_is_gone_is_made_again(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: bool
) -> None:
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        damaged(lab).unlink()
        if runs:
            assert main(["fsck", "--config", str(config)]) == 3
            is_right(lab)
    if not runs:
        assert main(["fsck", "--config", str(config)]) == 3
    assert "computed again" in capsys.readouterr().out
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        is_right(lab)
    assert main(["fsck", "--config", str(config)]) == 0


def test_what_is_free_is_shown_before_it_goes(
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server_stub.node.keeping.collect.OLD_S", -10.0)
    with LabNode(tmp_path) as node:
        blob = node.node.blobs.put(b"nobody's")
        assert main(["gc", "--config", str(config)]) == 0
        said = capsys.readouterr().out
        assert blob in said
        assert "--delete does it" in said
        assert node.node.blobs.has(blob)
        assert main(["gc", "--delete", "--config", str(config)]) == 0
        assert "freed" in capsys.readouterr().out
        assert not node.node.blobs.has(blob)


def test_collecting_where_the_arrays_were_moved_away(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LabNode(tmp_path) as node:
        pass
    node.settings.arrays_root.rename(tmp_path / "away")
    assert main(["gc", "--config", str(config)]) == 0
    assert "(nothing)" in capsys.readouterr().out


def test_there_is_nothing_to_check(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fsck", "--config", str(config)]) == 1
    assert "[database_missing]" in capsys.readouterr().err
