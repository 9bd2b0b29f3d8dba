"""Field types: what each admits and refuses at its edges."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpugoblin.ids import fresh_id
from gpugoblin.wire import bounds


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (
            bounds.TaskIdField,
            ["task_a", fresh_id("task")],
            ["task", "Task_a", "task_1", "task_a\n"],
        ),
        (bounds.Hex64, ["ab" * 32], ["AB" * 32, "ab" * 31, "ab" * 33, "ab" * 32 + "\n"]),
        (bounds.Count, [0, 2**62], [-1, 2**62 + 1, 1.0, True, "1"]),
        (bounds.Dim, [0, 2**40], [-1, 2**40 + 1]),
        (bounds.Shape, [[], [1] * 8], [[1] * 9, [-1], "ab"]),
        (bounds.UnixSeconds, [0, 2**36], [-1, 2**36 + 1, 1.5]),
        (bounds.Seconds, [0, 1e11, 0.5], [-0.1, 1.1e11]),
        (bounds.Word, ["a", "1.2.3+x@y:z_-"], ["", "a b", "a/b", "x" * 65, "é", "a\n"]),
        (bounds.PublicKey, [bytes(32)], [bytes(31), bytes(33)]),
        (bounds.Signature, [bytes(64)], [bytes(63), bytes(65)]),
        (bounds.Ticket, ["a.b.c"], ["", "a b", "x" * 4097, "a\n"]),
        (bounds.Dtype, ["float32", "bool"], ["float", "FLOAT32", ""]),
        (bounds.TicketIdField, ["blob_a"], ["", "blob", "a b_c"]),
    ],
)
def test_edges(kind: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert msgspec.convert(value, kind) is not None
    for value in bad:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, kind)
