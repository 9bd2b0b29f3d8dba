"""What the node makes of its own engine's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server_stub.node.executors.local import LocalExecutor
from server_stub.node.work import Compute
from tests.helpers.lab import Lab, product, row_sums
from tests.helpers.node import LabNode, Workers

__all__: list[str] = []


class Forgetful(Workers):
    """Its first result is gone before the node has heard of it."""

    dropped = False

    def _do(self, work: Any) -> Any:
        reply = super()._do(work)
        if isinstance(work, Compute) and not self.dropped and reply.output_blobs:
            self.dropped = True
            self.store.delete(reply.output_blobs[0])
        return reply


def test_a_result_that_is_gone_is_computed_again(tmp_path: Path) -> None:
    workers = Forgetful(tmp_path / "state" / "blobs")
    with LabNode(tmp_path, workers=workers) as node, Lab(node, tmp_path) as lab:
        values = np.arange(60, dtype=np.float32).reshape(12, 5)
        job = lab.wait(lab.submit(row_sums(values.shape), lab.file(values, "v.npy")))
        assert job.state == "done"
        assert workers.dropped
        np.testing.assert_allclose(lab.result(job.outputs[0]), values.sum(1))


def test_the_rate_of_the_engine_is_learned(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[float] = []
    monkeypatch.setattr(LocalExecutor, "learn", lambda _, rate: learned.append(rate))
    a, b, graph = product(300, 40, 70)
    job = lab.wait(lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy")))
    assert len(learned) == job.tasks


def test_a_node_that_drains_leases_nothing_to_its_engine(lab: Lab) -> None:
    lab.node.node.draining = True
    host = lab.node.node.local._host
    assert lab.node.call(host.lease_local(4)) == []
