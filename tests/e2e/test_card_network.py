"""A researcher's job on a lent card: every program is the one that its operator runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.units import MIB
from tests.helpers.network import Network
from tests.helpers.software_card import only_hardware, only_software

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
RNG = np.random.default_rng(5)


@pytest.fixture(params=[only_software, only_hardware])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    request.param()
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        with Network(
            root, {"agent-1": "ann"}, node={"grid_slot_bytes": MIB}, software_cards=True
        ) as running:
            yield running
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_products_and_a_graph_are_computed_by_a_card_and_verified(network: Network) -> None:
    config = network.root / "client.toml"
    config.write_text(f'node = "unix:{network.node_socket}"\nnode_key = "{network.node_key}"\n')
    left = RNG.standard_normal((520, 300), dtype=np.float32)
    right = RNG.standard_normal((300, 510), dtype=np.float32)
    numbers = RNG.standard_normal((2003, 31), dtype=np.float32)
    with gg.connect(config=config):
        array = gg.array(left) @ gg.array(right)
        job = gg.save([array], name="product", executor="grid", force=True).wait(timeout=120)
        assert job.info.tasks == job.info.verified_by.product > 0
        exact = left.astype(np.float64) @ right.astype(np.float64)
        assert np.abs(job.array[...] - exact).max() < 1e-3
        total = gg.sum(gg.exp(gg.array(numbers) * 0.5), axis=0)
        job = gg.save([total], name="graph", executor="grid", force=True).wait(timeout=120)
        assert job.info.verified_by.recompute == job.info.tasks > 0
        exact = np.exp(numbers.astype(np.float64) * 0.5).sum(axis=0)
        np.testing.assert_allclose(job.array[...], exact, rtol=1e-4)
    network.stop("agent-1", "node", "coordinator")
    log = network.programs.log("agent-1")
    assert "Card 1: lending" in log
    assert "Card 0" not in log
    assert "Traceback" not in log, log
