"""Replaying a program by hand."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.context import Cancelled, Context, KernelError
from app.engine.pool import Pool
from app.engine.program import Program, Step
from gpugoblin.catalog.spec import Array, TensorSpec

SPEC = TensorSpec("int32", (2, 3))


def double(reads: list[Array], writes: list[Array], context: Context) -> None:
    np.multiply(reads[0], 2, out=writes[0])


def program(*steps: Step) -> Program:
    return Program(
        input_specs=(SPEC,),
        output_specs=(TensorSpec("int32", (6,)), SPEC),
        specs=(SPEC, SPEC, SPEC, TensorSpec("int32", (6,))),
        constants=(np.full((2, 3), 5, np.int32),),
        homes={0: ("input", 0), 1: ("constant", 0), 2: ("arena", 64), 3: ("output", 0)},
        steps=steps,
        copies=((1, 1),),
        arena_bytes=128,
        scratch_bytes=72,
    )


def run(made: Program, pool: Pool, context: Context | None = None) -> list[Array]:
    outputs = [np.zeros(6, np.int32), np.zeros((2, 3), np.int32)]
    arena = np.zeros(128, np.uint8)
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    made.run([source], outputs, arena, context or Context(pool))
    return outputs


def test_homes_steps_and_copies(pool: Pool) -> None:
    first = Step(0, (0,), (2,), double, None, 0.5)  # type: ignore[arg-type]
    second = Step(
        1,
        (2,),
        (3,),
        lambda reads, writes, _: np.copyto(writes[0], reads[0].reshape(-1)),
        None,
        0.5,
    )
    made = program(first, second)
    outputs = run(made, pool)
    assert outputs[0].tolist() == [0, 2, 4, 6, 8, 10]
    assert outputs[1].tolist() == [[5] * 3] * 2
    assert made.private_bytes == 200
    assert made.position == 1


def test_views_are_made_on_the_way(pool: Pool) -> None:
    flat = Step(4, (0,), (9,), None, lambda source: source.reshape(-1), 0.0)
    last = Step(5, (9,), (3,), double, None, 1.0)  # type: ignore[arg-type]
    assert run(program(flat, last), pool)[0].tolist() == [0, 2, 4, 6, 8, 10]


def test_the_position_names_the_node_that_failed(pool: Pool) -> None:
    def fail(reads: object, writes: object, context: Context) -> None:
        raise KernelError("arithmetic")

    made = program(Step(7, (0,), (2,), fail, None, 1.0))
    with pytest.raises(KernelError):
        run(made, pool)
    assert made.position == 7


def test_nothing_starts_once_cancelled(pool: Pool) -> None:
    made = program(Step(3, (0,), (2,), double, None, 1.0))  # type: ignore[arg-type]
    with pytest.raises(Cancelled):
        run(made, pool, Context(pool, wanted=lambda: False))
