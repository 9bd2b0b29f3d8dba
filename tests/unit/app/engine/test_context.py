"""Cancel and progress between blocks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.engine.context import Cancelled, Context, KernelError
from app.engine.pool import Pool


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2)
    yield made
    made.close()


def test_progress_counts_blocks_by_their_share(pool: Pool) -> None:
    seen: list[float] = []
    context = Context(pool, report=seen.append)
    context.begin_step(0.75)
    context.blocks(3, lambda block: None)
    context.begin_step(0.25)
    context.blocks(1, lambda block: None)
    assert sorted(seen) == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_a_cancelled_task_stops_at_the_next_block(pool: Pool) -> None:
    done: list[int] = []
    context = Context(pool, wanted=lambda: len(done) < 2)
    context.begin_step(1.0)
    with pytest.raises(Cancelled):
        context.blocks(100, done.append)
    assert len(done) <= 3
    with pytest.raises(Cancelled):
        context.begin_step(0.5)


def test_an_error_of_values_carries_them() -> None:
    error = KernelError("index_out_of_range", (5, 0, 3))
    assert error.code == "index_out_of_range"
    assert error.values == (5, 0, 3)


def test_inside_a_body_only_cancelling_goes_on(pool: Pool) -> None:
    seen: list[float] = []
    wanted = [True]
    inside = Context(pool, wanted=lambda: wanted[0], report=seen.append).inside()
    inside.begin_step(1.0)
    inside.blocks(2, lambda block: None)
    assert seen == []
    wanted[0] = False
    with pytest.raises(Cancelled):
        inside.check()
