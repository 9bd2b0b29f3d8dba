"""Loss curves: from the node's own numbers, a bounded part of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from server_stub.node.web import curves
from tests.helpers.lab import Lab, row_sums
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear, submit


def test_the_losses_are_those_of_the_run(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Linear()
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        job = lab.wait(submit(lab, model, steps=12))
        found = node.call(curves.of(node.node, job.job))
        assert found is not None
        assert (found.done, found.steps, found.is_evaluated) == (12, 12, False)
        expected = model.run(12)[0]
        assert [step for step, _ in found.last] == list(range(12, 2, -1))
        np.testing.assert_allclose([loss for _, loss in found.last[::-1]], expected[2:], rtol=1e-4)
        assert found.picture.count("polyline") == 1
        # Of a run that is too long to be read whole, equal parts and the end.
        monkeypatch.setattr(curves, "MOST_READ", 4)
        monkeypatch.setattr(curves, "MOST_POINTS", 3)
        part = node.call(curves.of(node.node, job.job))
        assert part is not None
        assert [step for step, _ in part.last] == [12, 9, 5, 1]


def test_other_jobs_have_none(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    assert lab.node.call(curves.of(lab.node.node, job.job)) is None


def test_many_points_are_thinned_to_means() -> None:
    thin = curves._thinned([(n, float(n)) for n in range(4000)])
    assert len(thin) == curves.MOST_POINTS
    assert thin[0] == (9, 4.5)
    assert thin[-1][0] == 3999
