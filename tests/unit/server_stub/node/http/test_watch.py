"""Health, readiness and figures of a node."""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import NodeError
from server_stub.node import users
from server_stub.node.http.watch import count
from server_stub.node.store.sqlite import SqliteTx, connect, migrate
from tests.helpers.lab import Lab, free_port, grid_settings, refused, row_sums
from tests.helpers.node import LabNode

__all__: list[str] = []

TOKEN = "a-token-of-the-watch"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Lab]:
    given = {**grid_settings(), "metrics_port": free_port(), "metrics_token": TOKEN}
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as lab:
        yield lab


def ask(connection: http.client.HTTPConnection, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def inside(lab: Lab, path: str) -> tuple[int, str]:
    port = lab.node.settings.metrics_port
    return ask(http.client.HTTPConnection("127.0.0.1", port, timeout=10), path)


def outside(lab: Lab, path: str, token: str = "") -> tuple[int, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = lab.node.service.port
    made = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    return ask(made, path, token)


def figures(said: str) -> dict[str, float]:
    lines = [line for line in said.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_the_figures_count_and_name_nobody(watched: Lab) -> None:
    values = np.ones((4, 4), np.float32)
    array = watched.file(values, "secret.npy")
    job = watched.wait(watched.submit(row_sums((4, 4)), array, name="my-secret-job"))
    assert job.state == "done"
    status, said = inside(watched, "/v1/metrics")
    found = figures(said)
    assert status == 200
    assert found['gpugoblin_node_jobs{state="done"}'] == 1
    assert found["gpugoblin_node_ready"] == found["gpugoblin_node_database_up"] == 1
    assert found['gpugoblin_node_answers_total{status="2xx"}'] >= 3
    assert found["gpugoblin_node_disk_free_bytes"] > 0
    # A user of the system may be called as a part of our name is.
    for word in ("secret", job.job, job.owner):
        assert not re.search(rf"\b{re.escape(word)}\b", said), word


def test_who_reads_the_figures(watched: Lab, tmp_path: Path) -> None:
    assert outside(watched, "/v1/metrics")[0] == 401
    assert outside(watched, "/v1/metrics", TOKEN[:-1])[0] == 401
    assert outside(watched, "/v1/metrics", TOKEN)[0] == 200
    assert outside(watched, "/v1/ready") == (200, "ready\n")
    assert b"gpugoblin_node_ready 1" in watched.client.fetch(
        "GET", "/v1/metrics", max_bytes=100_000
    )
    with LabNode(tmp_path / "plain", **grid_settings()) as node, Lab(node, tmp_path) as lab:
        assert outside(lab, "/v1/metrics", TOKEN)[0] == 404
        assert outside(lab, "/v1/metrics", " ")[0] == 404


def test_the_database_is_asked_seldom(watched: Lab) -> None:
    assert 'jobs{state="done"}' not in inside(watched, "/v1/metrics")[1]
    values = np.ones((2, 2), np.float32)
    watched.wait(watched.submit(row_sums((2, 2)), watched.file(values, "v.npy")))
    assert 'jobs{state="done"}' not in inside(watched, "/v1/metrics")[1]


def test_why_a_node_is_not_ready(watched: Lab) -> None:
    node = watched.node.node
    assert inside(watched, "/v1/ready") == (200, "ready\n")
    node.trouble = NodeError("database_failed", reason="x")
    assert inside(watched, "/v1/ready") == (503, "not ready: database_failed\n")
    node.trouble = None
    lock = watched.node.settings.state / "node.lock"
    lock.rename(lock.with_name("moved"))
    assert inside(watched, "/v1/ready") == (503, "not ready: state_dir_moved\n")
    lock.with_name("moved").rename(lock)
    node.draining = True
    assert inside(watched, "/v1/ready") == (503, "not ready: shutting_down\n")
    assert '"stopping"' in inside(watched, "/v1/health")[1]
    refused("shutting_down", lambda: watched.file(np.ones((2, 2), np.float32), "v.npy"))
    assert "gpugoblin_node_ready 0" in inside(watched, "/v1/metrics")[1]


def test_users_are_those_with_a_token_that_holds() -> None:
    with contextlib.closing(connect(":memory:")) as connection:
        migrate(connection)
        tx = SqliteTx(connection)
        for name, expires_s in (("ann", None), ("bob", 50.0), ("cyd", None)):
            users.add(tx, 1.0, name, ("read",), expires_s=expires_s)
        users.revoke(tx, 2.0, "cyd")
        assert [count(tx, now_s).users for now_s in (49.0, 50.0)] == [2, 1]
    connection.close()
