"""Blocks over threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from app.engine.pool import Pool


@pytest.fixture(params=[1, 2, 5])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    made = Pool(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_every_block_runs_once(pool: Pool, count: int) -> None:
    seen: list[int] = []
    pool.run(count, seen.append)
    assert sorted(seen) == list(range(count))


def test_the_error_of_the_first_block_comes_out(pool: Pool) -> None:
    def work(block: int) -> None:
        if block in (1, 3):
            raise ValueError(str(block))

    with pytest.raises(ValueError, match="1"):
        pool.run(8, work)
    seen: list[int] = []
    pool.run(4, seen.append)
    assert sorted(seen) == [0, 1, 2, 3]


def test_blocks_run_at_the_same_time() -> None:
    pool = Pool(2)
    both = threading.Barrier(2, timeout=20.0)
    try:
        pool.run(2, lambda block: void(both.wait()))
    finally:
        pool.close()


def void(_: object) -> None:
    return None


def test_infinity_is_no_warning_on_any_thread() -> None:
    pool = Pool(3)
    try:
        with np.errstate(all="ignore"):
            pool.run(30, lambda block: void(np.float32(1) / np.zeros(4, np.float32)))
    finally:
        pool.close()
