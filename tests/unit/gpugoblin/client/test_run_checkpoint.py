from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gpugoblin.client.run_checkpoint import (
    FORMAT,
    Checkpoint,
    Reading,
    read_checkpoint,
    write_checkpoint,
)
from gpugoblin.errors import ClientError, StoreError
from gpugoblin.optim.lion import Lion
from gpugoblin.optim.sgd import SGD
from gpugoblin.wire.messages.training import NamedTensor

TENSORS = (
    NamedTensor("parameter", "layer.weight", 0, (2, 3)),
    NamedTensor("parameter", "layer.bias", 6, (2,)),
    NamedTensor("count", "batches", 0, ()),
)
MADE = Checkpoint(
    7, TENSORS, {"parameter": np.arange(8, dtype=np.float32), "count": np.array([3])},
    (np.full(8, 0.5, np.float32),), {"seed": 5, "optimizer": {"kind": "SGD"}},
)  # fmt: skip


def test_the_file_has_the_names_of_the_state_dict(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "a.safetensors", MADE)
    arrays = load_file(path)
    assert set(arrays) == {"layer.weight", "layer.bias", "batches", "optimizer/0"}
    assert arrays["layer.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    found = read_checkpoint(path)
    assert (found.step, found.tensors, found.facts) == (7, TENSORS, MADE.facts)
    assert np.array_equal(found.flat["parameter"], MADE.flat["parameter"])
    assert np.array_equal(found.state[0], MADE.state[0])
    assert found.flat["count"].tolist() == [3]


def test_files_that_are_none(tmp_path: Path) -> None:
    plain = tmp_path / "plain.safetensors"
    save_file({"a": np.zeros(2)}, plain)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(write_checkpoint(tmp_path / "a.safetensors", MADE).read_bytes()[:-8])
    lacking = tmp_path / "lacking.safetensors"
    told = {"format": FORMAT, "step": 1, "state": 1, "tensors": [
        {"kind": "parameter", "name": "a", "offset": 0, "shape": [2]}
    ]}  # fmt: skip
    save_file({"a": np.zeros(2)}, lacking, metadata={"gpugoblin": json.dumps(told)})
    for path in (plain, broken, lacking, tmp_path / "none.safetensors"):
        with pytest.raises(ClientError) as caught:
            read_checkpoint(path)
        assert caught.value.code == "checkpoint_misfit"


def test_tensors_of_another_model() -> None:
    MADE.require(TENSORS)
    for other in (TENSORS[:1], (*TENSORS, NamedTensor("buffer", "more", 0, (1,))),
                  (NamedTensor("parameter", "layer.weight", 0, (3, 2)), *TENSORS[1:])):  # fmt: skip
        with pytest.raises(ClientError) as caught:
            MADE.require(other)
        assert caught.value.code == "checkpoint_misfit"


def of(**facts: object) -> Checkpoint:
    given = {
        "optimizer": {"kind": "SGD", "rate": 0.1, "momentum": 0.9}, "batch": 24, "micro": 2,
        "seed": 1, "shuffle": True, "local_steps": 3,
    }  # fmt: skip
    return Checkpoint(7, TENSORS, MADE.flat, MADE.state, {**given, **facts})


def test_who_reads_on_where_it_ended() -> None:
    assert of().read_otherwise(Reading(24, 2, 1, True, 3)) == ""
    assert of().read_otherwise(Reading(12, 2, 1, True, 3)) == "shards=4"
    assert of().read_otherwise(Reading(12, 1, 2, False, 3)) == "batch=2, seed=1, shuffle=True"
    # The size of a task decides nothing where it makes one step.
    assert of(local_steps=1).read_otherwise(Reading(24, 8, 1, True)) == ""
    assert of(local_steps=1).read_otherwise(Reading(12, 2, 1, True)) == "batch=24"


def test_a_state_that_another_optimizer_would_take_for_its_own() -> None:
    plain = of(local_steps=1)
    plain.require_state(SGD(0.5, momentum=0.1), Reading(8, 8, 0, False))
    of().require_state(Lion(), Reading(24, 2, 1, True, 3))
    cases = [
        (plain, Lion(), 1, "SGD keeps momentum, Lion as it is given keeps mean"),
        (plain, SGD(0.1), 1, "SGD as it is given keeps nothing"),
        (plain, SGD(0.1, momentum=0.9), 3, "local_steps=1, not 3"),
        (of(), SGD(0.1, momentum=0.9), 1, "local_steps=3, not 1"),
        (of(local_steps=1, optimizer={"kind": "?"}), SGD(0.1), 1, "not known"),
        (of(local_steps=1, optimizer=5), SGD(0.1), 1, "not known"),
        (of(micro=0), SGD(0.1), 3, "how its run read"),
        (of(seed="a"), SGD(0.1), 3, "how its run read"),
    ]
    for checkpoint, optimizer, local_steps, told in cases:
        with pytest.raises(ClientError) as caught:
            checkpoint.require_state(optimizer, Reading(24, 2, 1, True, local_steps))
        assert caught.value.code == "checkpoint_misfit"
        assert told in caught.value.what


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        write_checkpoint(tmp_path / "no" / "a.safetensors", MADE)
    assert caught.value.code == "file_unwritable"
    assert list(tmp_path.iterdir()) == []
