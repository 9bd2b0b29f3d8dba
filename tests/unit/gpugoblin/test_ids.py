"""Fresh ids are random, short and match what the wire accepts."""

from __future__ import annotations

import msgspec
import pytest

from gpugoblin.ids import fresh_id
from gpugoblin.wire.bounds import TaskIdField


class _Holder(msgspec.Struct):
    task: TaskIdField


def test_fresh_ids_differ_and_pass_the_wire() -> None:
    made = {fresh_id("task") for _ in range(1000)}
    assert len(made) == 1000
    for one in made:
        text = msgspec.json.encode({"task": one})
        assert msgspec.json.decode(text, type=_Holder).task == one


@pytest.mark.parametrize("bad", ["", "task", "task_", "Task_abc", "task_a b", "task_01", "t" * 60])
def test_the_wire_refuses_other_shapes(bad: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({"task": bad}), type=_Holder)
