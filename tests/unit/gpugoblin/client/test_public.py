"""Functions on the session in use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.runner import CURRENT
from gpugoblin.client.session import Session
from gpugoblin.errors import ClientError
from tests.helpers.fake_node import FakeNode


def test_without_a_session_each_says_so() -> None:
    x = gg.array([1, 2])
    for use in (gg.jobs, lambda: gg.get("a"), lambda: gg.estimate(x), lambda: gg.compute(x)):
        with pytest.raises(ClientError, match="not_connected"):
            use()


def test_each_does_what_the_session_does(lab: Session, node: FakeNode) -> None:
    x = gg.array([1, 2])
    assert gg.save([x.sum(), x.max()], name="two").name == "two"
    assert gg.get("two").id == lab.get("two").id
    assert [job.name for job in gg.jobs()] == ["two"]
    np.testing.assert_array_equal(gg.compute(x.sum(), x.max(), name="kept"), [3, 2])
    assert gg.estimate(x.sum(), x.max()).tasks == 4


def test_one_array_is_saved_as_its_method_does(
    lab: Session, node: FakeNode, tmp_path: Path
) -> None:
    blocks = gg.map_blocks(lambda x: x + 1, np.ones((2, 3), np.float32), axis=1)
    job = gg.save(blocks, tmp_path / "a.npy", name="one")
    assert node.job("one").submit.block_axis == 1
    assert job.id == blocks.save(tmp_path / "a.npy", name="one").id
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.full((2, 3), 2))


def test_an_estimate_knows_the_blocks(lab: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []
    original = Session.estimate

    def estimate(
        session: Session, arrays: object, block_axis: int | None, options: object
    ) -> object:
        asked.append(block_axis)
        return original(session, arrays, block_axis, options)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "estimate", estimate)
    gg.estimate(gg.map_blocks(lambda x: x + 1, np.ones((2, 3), np.float32), axis=1))
    assert asked == [1]


def test_a_foreign_runner_is_no_session() -> None:
    class Other:
        def save(self, *arguments: object) -> object:
            raise AssertionError

        compute = save

    other = Other()
    CURRENT.enter(other)  # type: ignore[arg-type]
    try:
        with pytest.raises(ClientError, match="not_connected"):
            gg.jobs()
    finally:
        CURRENT.leave(other)  # type: ignore[arg-type]
