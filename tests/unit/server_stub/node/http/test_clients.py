"""The researcher's routes: who may do what, cancelling, deleting."""

from __future__ import annotations

import json
from contextlib import ExitStack

import numpy as np

from gpugoblin.wire.messages.job import (
    ArrayCreate,
    ArrayInfo,
    JobEvents,
    JobInfo,
    JobList,
)
from gpugoblin.wire.transport import Endpoint, Transport
from server_stub.node import users
from tests.helpers.lab import (
    LAB,
    Lab,
    fresh_hex,
    gate,
    product,
    refused,
    row_sums,
    until,
)

__all__: list[str] = []


def test_cancel_frees_the_work_and_tells_each_task(lab: Lab) -> None:
    lab.node.workers.hold = lab.node.call(gate())
    a, b, graph = product(30, 4, 7)
    job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"))
    until(lambda: lab.job(job.job).leased == 1)
    ended = lab.client.call("POST", f"/v1/jobs/{job.job}/cancel", JobInfo)
    assert ended.state == "cancelled"
    events = lab.client.call("GET", f"/v1/jobs/{job.job}/events", JobEvents).events
    assert [e.task_index for e in events if e.kind == "cancelled"] == [0, None]
    until(lambda: not list((lab.root / "state" / "arrays").iterdir()))


def test_deleting_a_job_removes_its_results(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    lab.client.fetch("DELETE", f"/v1/jobs/{job.job}", max_bytes=100)
    refused("unknown_job", lambda: lab.job(job.job))
    assert not list((lab.root / "state" / "arrays").iterdir())


def test_tokens_have_scopes_and_can_be_revoked(grid: Lab) -> None:

    async def add(name: str, scopes: tuple[str, ...]) -> str:
        return await grid.node.node.store.write(lambda tx: users.add(tx, 1.0, name, scopes))

    service = grid.node.service
    assert service.tls is not None
    address = f"https://127.0.0.1:{service.port}"
    tokens = {"ann": grid.node.call(add("ann", ("read", "submit"))),
              "bob": grid.node.call(add("bob", ("read",)))}  # fmt: skip
    with ExitStack() as stack:

        def client(token: str) -> Transport:
            made = Transport(Endpoint(address, token, service.tls.sha256))  # type: ignore[union-attr]
            stack.callback(made.close)
            return made

        ann, bob = client(tokens["ann"]), client(tokens["bob"])
        message = ArrayCreate("upload", "float32", (2, 2), fresh_hex())
        info = ann.call("POST", "/v1/arrays", ArrayInfo, body=message)
        refused("not_permitted", lambda: bob.call("POST", "/v1/arrays", ArrayInfo, body=message))
        refused("unknown_array", lambda: bob.call("GET", f"/v1/arrays/{info.array}", ArrayInfo))
        named = ArrayCreate("npy", "float32", (2, 2), fresh_hex(), "/etc/passwd")
        refused("file_not_local", lambda: ann.call("POST", "/v1/arrays", ArrayInfo, body=named))
        nobody = client("goblin_wrong")
        refused("not_authenticated", lambda: nobody.call("GET", "/v1/jobs", JobList))

        async def revoke() -> None:
            await grid.node.node.store.write(lambda tx: users.revoke(tx, 2.0, "ann"))

        grid.node.call(revoke())
        refused("token_revoked", lambda: ann.call("GET", "/v1/jobs", JobList))


def test_health_says_what_the_node_is(grid: Lab) -> None:
    found = json.loads(grid.client.fetch("GET", "/v1/health", max_bytes=10_000))
    assert found["lab"] == LAB
    assert found["state"] == "running"
    assert found["certificate_sha256"] == grid.node.service.tls.sha256  # type: ignore[union-attr]
