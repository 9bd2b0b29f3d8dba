"""`gpugoblin graph FILE`: text, picture, difference, and files that are no graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.client.graph_command import graph
from gpugoblin.errors import ClientError, GraphError
from gpugoblin.graph.serialize import encode, graph_hash


def saved(path: Path, array: gg.Array) -> str:
    path.write_bytes(encode(gg.show(array).graph))
    return str(path)


def test_showing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = gg.array(np.ones((2, 3), np.float32))
    one = saved(tmp_path / "one.graph", gg.tanh(gg.reshape(x, (2, 3)) + 1.0))
    other = saved(tmp_path / "other.graph", gg.exp(x + 1.0))
    assert graph([one]) == 0
    text = capsys.readouterr().out
    assert "%1 = tanh(%0 + 1) : float32[2, 3]" in text
    assert "1 nodes: 1 formula" in text
    assert graph_hash(gg.show(gg.tanh(x + 1.0)).graph) in text
    assert graph([one, "--against", other, "--canonical"]) == 1
    assert "+exp(" in capsys.readouterr().out
    assert graph([one, "--against", one]) == 0
    assert "equal" in capsys.readouterr().out
    picture = tmp_path / "one.svg"
    assert graph([one, "--svg", str(picture)]) == 0
    assert picture.read_text().startswith("<svg")


def test_files_that_are_no_graph(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.graph"
    with pytest.raises(ClientError, match="file_unreadable"):
        graph([str(wrong)])
    wrong.write_bytes(b"gpgX")
    with pytest.raises(GraphError, match="graph_bytes_malformed"):
        graph([str(wrong)])
    with wrong.open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(ClientError, match="larger than"):
        graph([str(wrong)])
