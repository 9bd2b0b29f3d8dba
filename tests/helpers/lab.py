"""A lab for tests: a running node, its researcher, graphs to submit, devices to compute them.

Owns: `Lab` and the small things that the tests of the node's parts share.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import string
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.error_codes import ALL_CODES
from gpugoblin.errors import EngineError, NodeError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode as encode_graph
from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobInfo, JobSubmit, OutputSave
from gpugoblin.wire.messages.summary import JobSummary
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.remote import RemoteError
from gpugoblin.wire.signing import public_key_bytes
from gpugoblin.wire.transport import Transport
from tests.helpers.device import Device
from tests.helpers.node import LabNode

__all__ = [
    "COORDINATOR",
    "DISK_FULL",
    "LAB",
    "FullDisk",
    "Lab",
    "died",
    "free_port",
    "fresh_hex",
    "gate",
    "grid_settings",
    "leases_of",
    "on_grid",
    "product",
    "refused",
    "row_sums",
    "until",
    "work_until",
]

LAB = "lab_abcdef"
COORDINATOR = Ed25519PrivateKey.generate()
DISK_FULL = {"path": "/full", "needed_bytes": 1, "free_bytes": 0}


def product(rows: int, inner: int, columns: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Two matrices and the graph of their product."""
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, inner), dtype=np.float32)
    b = rng.standard_normal((inner, columns), dtype=np.float32)
    builder = GraphBuilder()
    left = builder.input(TensorSpec("float32", a.shape))
    right = builder.input(TensorSpec("float32", b.shape))
    return a, b, encode_graph(builder.build((builder.add("matmul", (left, right)),)))


def row_sums(shape: tuple[int, ...], dtype: str = "float32") -> bytes:
    """The graph of sums over the last axis."""
    builder = GraphBuilder()
    value = builder.input(TensorSpec(dtype, shape))
    total = builder.add("reduce", (value,), axes=(len(shape) - 1,), function="sum")
    return encode_graph(builder.build((total,)))


class Lab:
    """A node and its researcher. A context manager around the researcher's connection."""

    def __init__(self, node: LabNode, root: Path) -> None:
        self.node = node
        self.root = root
        self.client: Transport = node.transport()

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def file(self, array: np.ndarray, name: str) -> ArrayInfo:
        path = self.root / name
        # A node that was started again may be reading it: what is there already is left alone.
        if not (path.exists() and np.array_equal(np.load(path), array)):
            np.save(path, array)
        message = ArrayCreate(
            "npy",
            cast(Any, str(array.dtype)),
            array.shape,
            fresh_hex(),
            str(path),
        )
        return self.client.call("POST", "/v1/arrays", ArrayInfo, body=message)

    def submit(self, graph: bytes, *inputs: ArrayInfo, **fields: Any) -> JobInfo:
        fields.setdefault("outputs", (OutputSave(),))
        message = JobSubmit(graph, tuple(one.array for one in inputs), **fields)
        return self.client.call("POST", "/v1/jobs", JobInfo, body=message)

    def job(self, job: str, **query: int) -> JobInfo:
        return self.client.call("GET", f"/v1/jobs/{job}", JobInfo, query=query or None)

    def summary(self, job: str) -> JobSummary:
        return self.client.call("GET", f"/v1/jobs/{job}/summary", JobSummary)

    def wait(self, job: JobInfo, limit_s: float = 30.0) -> JobInfo:
        ends_s = time.monotonic() + limit_s
        while job.state == "running" and time.monotonic() < ends_s:
            job = self.job(job.job, wait_s=5, after=job.verified)
        return job

    def result(self, info: ArrayInfo) -> np.ndarray:
        out = np.empty(info.shape, info.dtype)
        stop = ",".join(map(str, info.shape))
        start = ",".join("0" for _ in info.shape)
        self.client.download(
            f"/v1/arrays/{info.array}/region", memoryview(cast(Any, out)).cast("B"),
            query={"start": start, "stop": stop},
        )  # fmt: skip
        return out

    def device(self, **grant: Any) -> Device:
        service = self.node.service
        assert service.tls is not None
        return Device(service.port, service.tls.sha256, COORDINATOR, LAB, time.time, **grant)


def fresh_hex() -> str:
    return secrets.token_hex(32)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def refused(code: str, call: Any) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        call()
    assert caught.value.code == code, str(caught.value)
    assert caught.value.what
    assert caught.value.next_step
    return caught.value


async def gate() -> Any:
    return asyncio.Event()


def until(condition: Any, limit_s: float = 10.0) -> None:
    ends_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends_s, "it does not happen"
        time.sleep(0.02)


def died() -> EngineError:
    text = ALL_CODES["engine_died"].what + ALL_CODES["engine_died"].next_step
    fields = {name: "x" for _, name, _, _ in string.Formatter().parse(text) if name}
    return EngineError("engine_died", **fields)


def on_grid(lab: Lab, graph: bytes, *inputs: ArrayInfo, **fields: Any) -> JobInfo:
    return lab.submit(
        graph, *inputs, executor="grid", force=True, constraints=Constraints(sandbox="none"),
        **fields,
    )  # fmt: skip


def work_until(lab: Lab, job: JobInfo, devices: list[Device], limit_s: float = 30.0) -> JobInfo:
    ends_s = time.monotonic() + limit_s
    while job.state == "running" and time.monotonic() < ends_s:
        for device in devices:
            device.work()
        job = lab.job(job.job)
    return job


def leases_of(device: Device) -> Any:
    found: list[Any] = []

    def have() -> bool:
        found.extend(device.exchange(want=1).leases)
        return bool(found)

    until(have)
    return found


def grid_settings() -> dict[str, Any]:
    """Settings of a node that takes volunteers."""
    return {
        "lab": LAB, "listen_port": free_port(), "confirmed_no_confidential_data": True,
        "coordinator_key": public_key_bytes(COORDINATOR).hex(), "grid_slot_bytes": 2**20,
    }  # fmt: skip


class FullDisk:
    """A store whose transactions fail, each named, while the disk is full."""

    def __init__(self, node: LabNode) -> None:
        self._store = node.node.store
        self.is_full = False
        self.refused = 0
        node.node.store = self

    def write(self, body: Any, after: Any = None, *, brief: bool = False) -> Any:
        if not self.is_full:
            return self._store.write(body, after, brief=brief)
        self.refused += 1
        return _refused()

    def read(self, body: Any) -> Any:
        return self._store.read(body)


async def _refused() -> None:
    raise NodeError("database_failed", reason="database or disk is full")
