"""The whole path on a small scale: researcher, lab node, coordinator, two agents of two owners.

Every program is the one that its operator runs, and every engine is walled in.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

import gpugoblin as gg
from gpugoblin.errors import ClientError
from gpugoblin.units import MIB
from tests.helpers.network import Network
from tests.helpers.network_processes import patience

pytestmark = pytest.mark.timeout(300)
AGENTS = {"agent-1": "ann", "agent-2": "bob"}
RNG = np.random.default_rng(5)


@pytest.fixture
def network() -> Iterator[Network]:
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        with Network(root, AGENTS, node={"grid_slot_bytes": MIB}) as running:
            yield running
    finally:
        shutil.rmtree(root, ignore_errors=True)


def product(network: Network) -> gg.Job:
    """A product of many tiles; every one must pass the product check."""
    left = RNG.standard_normal((1009, 607), dtype=np.float32)
    right = RNG.standard_normal((607, 1013), dtype=np.float32)
    path = network.root / "left.npy"
    np.save(path, left)
    array = gg.open(path) @ gg.array(right)
    job = gg.save([array], name="product", executor="grid", force=True).wait(timeout=60)
    by = job.info.verified_by
    assert job.info.tasks == by.product > 1
    found = job.array[...]
    assert found.dtype == np.float32
    exact = left.astype(np.float64) @ right.astype(np.float64)
    assert np.abs(found - exact).max() < 1e-3
    return job


def graph() -> gg.Job:
    """No product at its end: the lab's validator computes it once more."""
    numbers = RNG.standard_normal((5003, 31), dtype=np.float32)
    array = gg.sum(gg.exp(gg.array(numbers) * 0.5), axis=0)
    job = gg.save([array], name="graph", executor="grid", force=True).wait(timeout=60)
    assert job.info.verified_by.recompute == job.info.tasks > 0
    exact = np.exp(numbers.astype(np.float64) * 0.5).sum(axis=0)
    np.testing.assert_allclose(job.array[...], exact, rtol=1e-4)
    return job


def check_certificate(network: Network, job: gg.Job) -> None:
    """Signed by the node's own key, and by no other."""
    certificate = job.certificate()
    assert certificate.node_key == network.node_key
    body = certificate.body
    assert (body.tasks, body.graph) == (job.info.tasks, job.info.graph)
    assert body.verified_by == job.info.verified_by
    text = certificate.to_json()
    again = gg.JobCertificate.from_json(text, node_key=network.node_key)
    assert again == certificate or again.body == certificate.body
    wrong = text.replace('"assurance": "full"', '"assurance": "audited"')
    assert wrong != text
    with pytest.raises(ClientError):
        gg.JobCertificate.from_json(wrong, node_key=network.node_key)


def check_credits(network: Network, jobs: list[gg.Job]) -> None:
    """What the coordinator has booked is what the lab verified, however it is summed."""
    tasks = sum(job.info.tasks for job in jobs)
    waiting = patience("every receipt is booked")
    while waiting():
        if network.receipts() >= tasks:
            break
    units = sum(job.refresh().credits for job in jobs)
    assert units > 0
    for by in ("owner", "device", "lab", "day"):
        rows = network.operate("credits", "--by", by)
        assert sum(row["receipts"] for row in rows) == tasks
        # A receipt is booked in millionths of a unit.
        assert abs(sum(row["units"] for row in rows) - units) <= 0.6e-6 * tasks
    owners = {row["subject"] for row in network.operate("credits", "--by", "owner")}
    assert owners <= set(AGENTS.values())
    assert network.operate("check") == {"ledger_faults": 0, "audit_broken_at": 0}


def test_from_the_researcher_to_verified_numbers_and_credits(network: Network) -> None:
    config = network.root / "client.toml"
    config.write_text(f'node = "unix:{network.node_socket}"\nnode_key = "{network.node_key}"\n')
    with gg.connect(config=config):
        jobs = [product(network), graph()]
        for job in jobs:
            check_certificate(network, job)
        check_credits(network, jobs)
        assert {job.name for job in gg.jobs()} == {"product", "graph"}
        assert gg.get("product").state == "done"
    names = network.programs.names()
    assert set(names) == {"coordinator", "node", *AGENTS}
    family = [
        process
        for name in names
        for process in psutil.Process(network.programs.pid(name)).children(recursive=True)
    ]
    assert len(family) > 2, "engines, and workers of the node"
    network.stop(*AGENTS, "node", "coordinator")
    waiting = patience("engines and workers end with whom they belong to")
    while waiting():
        if not any(process.is_running() for process in family):
            break
    for name in names:
        log = network.programs.log(name)
        assert "Traceback" not in log, log
