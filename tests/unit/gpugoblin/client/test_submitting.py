"""From arrays to a submission: targets, names, classes, inputs (see also test_session.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.lower import Lowered, lower
from gpugoblin.client.submitting import Target, submission, target
from gpugoblin.errors import ClientError
from gpugoblin.graph.serialize import decode
from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.job import OutputSave

NUMBERS = np.ones((2, 3), np.float32)


def lowered(array: gg.Array) -> Lowered:
    return lower([array.value])


@pytest.mark.parametrize("kind", ["npy", "zarr", "safetensors"])
def test_a_target_is_absolute(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert target(f"a.{kind}") == Target(kind, str(tmp_path / f"a.{kind}"))  # type: ignore[arg-type]
    assert target(None) == Target()
    assert target(None).save(True) == OutputSave(overwrite=True)


@pytest.mark.parametrize("path", ["a", "a.txt", "", "no/a.npy"])
def test_targets_that_are_none(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClientError) as caught:
        target(path)
    assert caught.value.code == "target_malformed"


def test_the_message_is_whole() -> None:
    made = lowered(gg.exp(gg.array(NUMBERS)))
    message = submission(made, (), (OutputSave(),), {"name": "n", "priority": -5}, 1)
    assert decode(message.graph) == made.graph
    assert (message.name, message.priority, message.block_axis) == ("n", -5, 1)
    assert (message.executor, message.assurance, message.force) == ("auto", "full", False)
    assert encode(message)


def test_the_class_follows_the_dtypes() -> None:
    whole = gg.array(np.arange(3))
    for array, name in (
        (whole + 1, "exact"), (whole.astype("float32"), "float32"), (whole > 1, "exact"),
        (gg.array(NUMBERS) > 0, "float32"),
    ):  # fmt: skip
        assert submission(lowered(array), (), (OutputSave(),), {}, None).numeric_class == name
    given = submission(lowered(whole), (), (OutputSave(),), {"numeric_class": "float32"}, None)
    assert given.numeric_class == "float32"


def test_a_name_of_the_content() -> None:
    def name(array: gg.Array, *outputs: OutputSave) -> str | None:
        return submission(lowered(array), (), outputs, {}, None).name

    x = gg.array(NUMBERS)
    same = {name(gg.exp(x), OutputSave()), name(gg.exp(gg.array(NUMBERS.copy())), OutputSave())}
    assert len(same) == 1
    others = {
        name(gg.exp(gg.array(NUMBERS + 1)), OutputSave()), name(gg.log(x), OutputSave()),
        name(gg.exp(x), OutputSave(format="npy", path="/a.npy")),
    }  # fmt: skip
    assert len(same | others) == 4


def test_a_long_name_of_an_input_is_cut_from_the_left() -> None:
    made = lowered(gg.array(NUMBERS) + 1)
    names = type(made.names)(inputs=("/" + "d" * 3000 + "/a.npy",))
    message = submission(Lowered(made.graph, made.sources, names), (), (OutputSave(),), {}, None)
    assert len(message.input_names[0]) == 1024
    assert message.input_names[0].endswith("/a.npy")
