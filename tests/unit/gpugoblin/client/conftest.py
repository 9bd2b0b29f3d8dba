"""A small lab node, and a session with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from gpugoblin.client.session import Session, connect
from tests.helpers.fake_node import FakeNode


@pytest.fixture(autouse=True, scope="session")
def zarr_threads(tmp_path_factory: pytest.TempPathFactory) -> None:
    """zarr keeps threads for ever: they are started, few, before any test is watched for leaks."""
    zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})
    path = tmp_path_factory.mktemp("zarr") / "warm.zarr"
    array = zarr.create_array(store=path, shape=(4, 4), dtype="int32", chunks=(2, 2))
    array[...] = 1
    np.asarray(array[...])


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the configuration or the state of whoever runs it."""
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(tmp_path / "client.toml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("NODE", "TOKEN", "TOKEN_FILE", "CERTIFICATE_SHA256", "CA_FILE", "NODE_KEY"):
        monkeypatch.delenv(f"GPUGOBLIN_{name}", raising=False)
    monkeypatch.delenv("GPUGOBLIN_STATE_DIR", raising=False)


@pytest.fixture
def node(short_path: Path) -> Iterator[FakeNode]:
    with FakeNode(short_path / "s") as running:
        yield running


@pytest.fixture
def lab(node: FakeNode) -> Iterator[Session]:
    with connect(node.address) as session:
        yield session
