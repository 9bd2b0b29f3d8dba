from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpugoblin.errors import GoblinError
from gpugoblin.ids import ArrayId
from gpugoblin.wire.messages.training import EvaluationSubmit, NamedTensor
from server_stub.node.training.building import ArraySpecs, make_plan, read_plan
from tests.helpers.trainings import Linear, linear_message

NAMED = [ArrayId("array_aaaa")] * 5
DATA = (("float32", (40, 3)), ("float32", (40,)))
SPECS = ArraySpecs(DATA, ())


def test_a_stored_training_gives_the_same_plan() -> None:
    message = linear_message(Linear(), 4, 6, NAMED)
    made = make_plan(message, SPECS)
    stored = read_plan(msgspec.json.encode(message), msgspec.json.encode(SPECS).decode())
    assert (stored.inputs, stored.count) == (made.inputs, made.count)
    assert [stored.task(n) for n in range(9)] == [made.task(n) for n in range(9)]


@pytest.mark.parametrize(
    ("fields", "specs", "code"),
    [
        ({"batch": 9}, SPECS, "batch_not_divisible"),
        ({"micro": 2}, SPECS, "batch_not_divisible"),
        ({"batch": 44}, SPECS, "data_too_short"),
        ({}, ArraySpecs(DATA[:1], ()), "training_malformed"),
        ({}, ArraySpecs((("float32", (40, 3)), ("float32", (39,))), ()), "training_malformed"),
        ({}, ArraySpecs((("float32", (40, 4)), ("float32", (40,))), ()), "array_mismatch"),
        ({}, ArraySpecs((("int64", (40, 3)), ("float32", (40,))), ()), "array_mismatch"),
        ({"optimizer": "{"}, SPECS, "training_malformed"),
        ({"optimizer": '{"kind": "os.system"}'}, SPECS, "attribute_invalid"),
        ({"tensors": (NamedTensor("parameter", "w", 0, (3,)),)}, SPECS, "training_malformed"),
        ({"tensors": (NamedTensor("parameter", "w", 1, (4,)),)}, SPECS, "training_malformed"),
        ({"graph": b"no graph"}, SPECS, "graph_bytes_malformed"),
    ],
)
def test_trainings_that_are_refused(fields: dict[str, Any], specs: ArraySpecs, code: str) -> None:
    message = msgspec.structs.replace(linear_message(Linear(), 4, 6, NAMED), **fields)
    with pytest.raises(GoblinError) as caught:
        make_plan(message, specs)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("every", "shapes", "code"),
    [
        (2, ((3, 3), (3,)), "data_too_short"),
        (7, ((8, 3), (8,)), "training_malformed"),
        (2, ((4 * 257, 3), (4 * 257,)), "training_malformed"),
    ],
)
def test_evaluations_that_are_refused(every: int, shapes: Any, code: str) -> None:
    message = linear_message(Linear(), 4, 6, NAMED)
    held = EvaluationSubmit(message.graph, message.slots, message.data, every)
    specs = ArraySpecs(DATA, (), tuple(("float32", shape) for shape in shapes))
    with pytest.raises(GoblinError) as caught:
        make_plan(msgspec.structs.replace(message, evaluation=held), specs)
    assert caught.value.code == code


def test_a_program_of_another_version() -> None:
    with pytest.raises(GoblinError) as caught:
        read_plan(b"{}", "{}")
    assert caught.value.code == "graph_malformed"
