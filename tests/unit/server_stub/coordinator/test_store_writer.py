"""Pieces of work and the thread that runs them, without a database."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.store_writer import MAX_GROUP, Piece, Writer


class Nothing:
    def nested(self) -> Any:
        return nullcontext()


def run(work: Any) -> Piece:
    piece = Piece(work, Future())
    piece.run(Nothing(), (KeyError,), LookupError)  # type: ignore[arg-type]
    return piece


def raising(error: Exception) -> Any:
    def work(tx: Any) -> None:
        raise error

    return work


def test_a_piece_keeps_its_own_errors_and_passes_on_those_of_the_database() -> None:
    assert run(lambda tx: 7).result == 7
    for error in (KeyError("own"), ValueError("any other")):
        assert run(raising(error)).error is error
    with pytest.raises(IndexError):
        run(raising(IndexError("the database's")))


def test_a_second_run_forgets_the_first() -> None:
    turns = iter([ValueError("first"), None])

    def work(tx: Any) -> int:
        error = next(turns)
        if error is not None:
            raise error
        return 2

    piece = Piece(work, Future())
    for _ in range(2):
        piece.run(Nothing(), (KeyError,), LookupError)  # type: ignore[arg-type]
    piece.settle()
    assert piece.future.result(0) == 2


def test_groups_are_bounded_and_nothing_is_left_at_the_end() -> None:
    sizes: list[int] = []
    gate, ended = threading.Event(), threading.Event()

    def commit(group: list[Piece]) -> None:
        gate.wait(10)
        sizes.append(len(group))
        for piece in group:
            piece.future.set_result(None)

    writer = Writer(commit, ended.set)
    futures = [writer.submit(lambda tx: None) for _ in range(3 * MAX_GROUP)]
    gate.set()
    writer.close()
    writer.close()
    assert all(future.done() for future in futures)
    assert sum(sizes) == 3 * MAX_GROUP
    assert max(sizes) == MAX_GROUP
    assert ended.is_set()
    with pytest.raises(CoordinatorError) as caught:
        writer.submit(lambda tx: None).result(0)
    assert caught.value.code == "coordinator_stopping"
