"""The whole node over its own doors: a researcher on the Unix socket, devices over TLS."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import EngineError, NodeError, StoreError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode as encode_graph
from gpugoblin.wire.messages.job import (
    ArrayCreate,
    ArrayInfo,
    Certificate,
    JobEvents,
    JobInfo,
    JobList,
    JobSubmit,
    OutputSave,
)
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.remote import RemoteError
from gpugoblin.wire.signing import public_key_bytes, verify_json
from gpugoblin.wire.transport import Transport
from server_stub.node.service import open_state
from server_stub.node.work import Compute, Fold
from tests.helpers.device import Device, capabilities
from tests.helpers.node import LabNode, lab_settings

__all__: list[str] = []

LAB = "lab_abcdef"
COORDINATOR = Ed25519PrivateKey.generate()
DISK_FULL = {"path": "/full", "needed_bytes": 1, "free_bytes": 0}


def product(rows: int, inner: int, columns: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Two matrices and the graph of their product."""
    from gpugoblin.catalog.spec import TensorSpec

    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, inner), dtype=np.float32)
    b = rng.standard_normal((inner, columns), dtype=np.float32)
    builder = GraphBuilder()
    left = builder.input(TensorSpec("float32", a.shape))
    right = builder.input(TensorSpec("float32", b.shape))
    return a, b, encode_graph(builder.build((builder.add("matmul", (left, right)),)))


def row_sums(shape: tuple[int, ...], dtype: str = "float32") -> bytes:
    """The graph of sums over the last axis."""
    from gpugoblin.catalog.spec import TensorSpec

    builder = GraphBuilder()
    value = builder.input(TensorSpec(dtype, shape))
    total = builder.add("reduce", (value,), axes=(len(shape) - 1,), function="sum")
    return encode_graph(builder.build((total,)))


class Lab:
    """A node and its researcher."""

    def __init__(self, node: LabNode, root: Path) -> None:
        self.node = node
        self.root = root
        self.client: Transport = node.transport()

    def file(self, array: np.ndarray, name: str) -> ArrayInfo:
        path = self.root / name
        np.save(path, array)
        message = ArrayCreate(
            "npy",
            str(array.dtype),
            array.shape,
            fresh_hex(),
            str(path),  # type: ignore[arg-type]
        )
        return self.client.call("POST", "/v1/arrays", ArrayInfo, body=message)

    def submit(self, graph: bytes, *inputs: ArrayInfo, **fields: Any) -> JobInfo:
        fields.setdefault("outputs", (OutputSave(),))
        message = JobSubmit(graph, tuple(one.array for one in inputs), **fields)
        return self.client.call("POST", "/v1/jobs", JobInfo, body=message)

    def job(self, job: str, **query: int) -> JobInfo:
        return self.client.call("GET", f"/v1/jobs/{job}", JobInfo, query=query or None)

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
            f"/v1/arrays/{info.array}/region", memoryview(out).cast("B"),
            query={"start": start, "stop": stop},
        )  # fmt: skip
        return out

    def device(self, **grant: Any) -> Device:
        service = self.node.service
        assert service.tls is not None
        return Device(service.port, service.tls.sha256, COORDINATOR, LAB, time.time, **grant)


def fresh_hex() -> str:
    import secrets

    return secrets.token_hex(32)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with LabNode(tmp_path) as node:
        made = Lab(node, tmp_path)
        yield made
        made.client.close()


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Lab]:
    given = {
        "lab": LAB, "listen_port": free_port(), "confirmed_no_confidential_data": True,
        "coordinator_key": public_key_bytes(COORDINATOR).hex(), "grid_slot_bytes": 2**20,
    }  # fmt: skip
    with LabNode(tmp_path, **given) as node:
        made = Lab(node, tmp_path)
        yield made
        made.client.close()


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def refused(code: str, call: Any) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.what
    assert caught.value.next_step
    return caught.value


# Local jobs.


def test_a_product_is_computed_checked_and_named(lab: Lab) -> None:
    a, b, graph = product(300, 40, 70)
    inputs = lab.file(a, "a.npy"), lab.file(b, "b.npy")
    save = OutputSave("npy", str(lab.root / "c.npy"))
    job = lab.wait(lab.submit(graph, *inputs, outputs=(save,), name="gram"))
    assert job.state == "done"
    assert job.used == job.verified == job.tasks == job.verified_by.product
    np.testing.assert_allclose(np.load(lab.root / "c.npy"), a @ b, rtol=1e-4, atol=1e-4)
    events = lab.client.call("GET", "/v1/jobs/gram/events", JobEvents).events
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events][:3] == ["submitted", "started", "leased"]
    assert events[-1].kind == "done"


def test_what_is_no_product_is_recomputed_by_the_validator(lab: Lab) -> None:
    values = np.arange(60, dtype=np.float32).reshape(12, 5)
    job = lab.wait(lab.submit(row_sums(values.shape), lab.file(values, "v.npy")))
    assert job.state == "done"
    assert job.verified_by.recompute == job.tasks
    np.testing.assert_allclose(lab.result(job.outputs[0]), values.sum(1))
    assert "Recompute" in lab.node.workers.done


def test_a_wrong_product_of_the_own_engine_is_repaired(lab: Lab) -> None:
    lab.node.workers.falsify = True
    a, b, graph = product(300, 40, 70)
    job = lab.wait(lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy")))
    assert job.state == "done"
    assert job.lost.rejected == 1
    assert job.verified_by.recompute == 1
    np.testing.assert_allclose(lab.result(job.outputs[0]), a @ b, rtol=1e-4, atol=1e-4)


def test_the_same_name_and_content_attaches(lab: Lab) -> None:
    values = np.ones((4, 4), np.float32)
    array = lab.file(values, "v.npy")
    first = lab.wait(lab.submit(row_sums((4, 4)), array, name="once"))
    again = lab.submit(row_sums((4, 4)), array, name="once")
    assert again.attached
    assert again.job == first.job
    other = lab.file(np.zeros((5, 4), np.float32), "w.npy")
    refused("job_name_taken", lambda: lab.submit(row_sums((5, 4)), other, name="once"))
    assert len(lab.client.call("GET", "/v1/jobs", JobList).jobs) == 1


def test_a_dry_run_stores_nothing(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    info = lab.submit(row_sums((4, 4)), array, dry_run=True)
    assert info.state == "planned"
    assert info.plan.tasks >= 1
    assert lab.client.call("GET", "/v1/jobs", JobList).jobs == ()


def test_regions_are_served_when_verified_and_not_before(lab: Lab) -> None:
    lab.node.workers.hold = hold = lab.node.call(_event())
    a, b, graph = product(30, 4, 7)
    job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"))
    refused("region_not_verified", lambda: lab.result(job.outputs[0]))
    lab.node.loop.call_soon_threadsafe(hold.set)
    job = lab.wait(job)
    np.testing.assert_allclose(lab.result(job.outputs[0]), a @ b, rtol=1e-4, atol=1e-4)
    beyond = f"/v1/arrays/{job.outputs[0].array}/region?start=0,0&stop=31,7"
    refused("region_invalid", lambda: lab.client.fetch("GET", beyond, max_bytes=1 << 20))


async def _event() -> Any:
    import asyncio

    return asyncio.Event()


def test_cancel_frees_the_work_and_tells_each_task(lab: Lab) -> None:
    lab.node.workers.hold = lab.node.call(_event())
    a, b, graph = product(30, 4, 7)
    job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"))
    _until(lambda: lab.job(job.job).leased == 1)
    ended = lab.client.call("POST", f"/v1/jobs/{job.job}/cancel", JobInfo)
    assert ended.state == "cancelled"
    events = lab.client.call("GET", f"/v1/jobs/{job.job}/events", JobEvents).events
    assert [e.task_index for e in events if e.kind == "cancelled"] == [0, None]
    _until(lambda: not list((lab.root / "state" / "arrays").iterdir()))


def _until(condition: Any, limit_s: float = 10.0) -> None:
    ends_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends_s, "it does not happen"
        time.sleep(0.02)


def test_deleting_a_job_removes_its_results(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    lab.client.fetch("DELETE", f"/v1/jobs/{job.job}", max_bytes=100)
    refused("unknown_job", lambda: lab.job(job.job))
    assert not list((lab.root / "state" / "arrays").iterdir())


def test_the_certificate_is_signed_by_the_node(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    found = lab.client.call("GET", f"/v1/jobs/{job.job}/certificate", Certificate)
    verify_json(found.body.node_key, found.body, found.signature)
    assert found.body.node_key == public_key_bytes(lab.node.node.key)
    assert found.body.verified_by == job.verified_by
    assert found.body.engine_builds == ("test-engine",)


def test_an_output_comes_as_a_container(lab: Lab) -> None:
    from safetensors.numpy import load

    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    job = lab.wait(lab.submit(row_sums((2, 4)), lab.file(values, "v.npy")))
    path = f"/v1/jobs/{job.job}/outputs.safetensors?output=0"
    found = load(lab.client.fetch("GET", path, max_bytes=1 << 20))
    np.testing.assert_allclose(found["output"], values.sum(1))


def test_an_array_is_sent_in_pieces_and_goes_on_where_it_stopped(lab: Lab) -> None:
    values = np.arange(1000, dtype=np.float32)
    message = ArrayCreate("upload", "float32", (10, 100), fresh_hex())
    info = lab.client.call("POST", "/v1/arrays", ArrayInfo, body=message)
    data = values.tobytes()
    path = f"/v1/arrays/{info.array}/bytes"
    half = lab.client.upload(path, data[:1500], ArrayInfo, query={"offset": 0})
    assert (half.stored_bytes, half.complete) == (1500, False)
    refused("array_incomplete", lambda: lab.submit(row_sums((10, 100)), info))
    wrong = refused(
        "upload_offset",
        lambda: lab.client.upload(path, data[9:20], ArrayInfo, query={"offset": 9}),
    )
    assert wrong.fields["stored_bytes"] == "1500"
    again = lab.client.call("POST", "/v1/arrays", ArrayInfo, body=message)
    assert (again.array, again.stored_bytes) == (info.array, 1500)
    whole = lab.client.upload(path, data[1500:], ArrayInfo, query={"offset": 1500})
    assert whole.complete
    refused(
        "upload_too_long",
        lambda: lab.client.upload(path, b"x", ArrayInfo, query={"offset": len(data)}),
    )
    job = lab.wait(lab.submit(row_sums((10, 100)), whole))
    expected = values.reshape(10, 100).sum(1)
    np.testing.assert_allclose(lab.result(job.outputs[0]), expected, rtol=1e-5)


# What is refused before a job starts.


def test_refusals_before_a_job_starts(lab: Lab, tmp_path: Path) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    graph = row_sums((4, 4))
    refused("array_mismatch", lambda: lab.submit(row_sums((4, 5)), array))
    refused("array_mismatch", lambda: lab.submit(row_sums((4, 4), "int32"), array))
    refused("inputs_mismatch", lambda: lab.submit(graph))
    refused("unknown_array", lambda: lab.submit(graph, _with_id(array, "array_aaaa")))
    refused("class_not_for_graph", lambda: lab.submit(graph, array, numeric_class="exact"))
    refused("audited_not_offered", lambda: lab.submit(graph, array, assurance="audited"))
    refused("executor_unavailable", lambda: lab.submit(graph, array, executor="grid"))
    bad = (OutputSave("npy", "relative.npy"),)
    refused("output_path", lambda: lab.submit(graph, array, outputs=bad))
    nowhere = (OutputSave("npy", str(tmp_path / "no" / "c.npy")),)
    refused("output_path", lambda: lab.submit(graph, array, outputs=nowhere))
    (tmp_path / "there.npy").write_bytes(b"mine")
    there = (OutputSave("npy", str(tmp_path / "there.npy")),)
    refused("array_exists", lambda: lab.submit(graph, array, outputs=there))
    assert (tmp_path / "there.npy").read_bytes() == b"mine"
    refused("unknown_job", lambda: lab.job("nobody"))
    assert lab.client.call("GET", "/v1/jobs", JobList).jobs == ()


def _with_id(info: ArrayInfo, array: str) -> ArrayInfo:
    import msgspec

    return msgspec.structs.replace(info, array=array)


def test_files_that_are_not_what_was_said(lab: Lab, tmp_path: Path) -> None:
    def create(path: Path, shape: tuple[int, ...] = (4, 4)) -> ArrayInfo:
        message = ArrayCreate("npy", "float32", shape, fresh_hex(), str(path))
        return lab.client.call("POST", "/v1/arrays", ArrayInfo, body=message)

    refused("array_unreadable", lambda: create(tmp_path / "missing.npy"))
    np.save(tmp_path / "v.npy", np.ones((4, 4), np.float32))
    refused("array_differs", lambda: create(tmp_path / "v.npy", (4, 5)))
    array = create(tmp_path / "v.npy")
    whole = (tmp_path / "v.npy").read_bytes()
    (tmp_path / "v.npy").write_bytes(whole[:-8])
    refused("array_truncated", lambda: create(tmp_path / "v.npy"))
    refused("array_truncated", lambda: lab.submit(row_sums((4, 4)), array))


def test_results_that_do_not_fit_the_disk(tmp_path: Path) -> None:
    with LabNode(tmp_path, reserve_bytes=1 << 60) as node:
        lab = Lab(node, tmp_path)
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        error = refused("results_do_not_fit", lambda: lab.submit(row_sums((4, 4)), array))
        assert error.status == 507
        lab.client.close()


def test_a_task_larger_than_the_engine(tmp_path: Path) -> None:
    with LabNode(tmp_path, slot_bytes=2**20, engine_memory_bytes=64 * 2**20) as node:
        lab = Lab(node, tmp_path)
        array = lab.file(np.ones((2, 2**20), np.float32), "v.npy")
        with pytest.raises(RemoteError) as caught:
            lab.submit(row_sums((2, 2**20)), array, block_axis=0)
        assert caught.value.status == 400
        lab.client.close()


# Trouble while a job runs.


def test_a_full_disk_is_waited_for_and_loses_nothing(lab: Lab) -> None:
    refusals: list[int] = []

    def meddle(item: Any) -> StoreError | None:
        if isinstance(item, Compute) and not refusals:
            refusals.append(1)
            return StoreError("disk_full", **DISK_FULL)
        return None

    lab.node.workers.meddle = meddle
    lab.node.node.local._retry_s = 0.05
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.submit(row_sums((4, 4)), array)
    job = lab.wait(job)
    assert job.state == "done"
    assert refusals
    assert job.error_code == ""


def test_an_engine_that_dies_is_tried_again_then_the_job_fails(lab: Lab) -> None:
    def meddle(item: Any) -> EngineError | None:
        if isinstance(item, Compute):
            return _died()
        return None

    lab.node.workers.meddle = meddle
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    assert job.state == "failed"
    assert job.error_code == _died().code
    assert job.error_text
    assert job.lost.abandoned == 0


def _died() -> EngineError:
    from gpugoblin.error_codes import ALL_CODES

    text = ALL_CODES["engine_died"].what + ALL_CODES["engine_died"].next_step
    import string

    fields = {name: "x" for _, name, _, _ in string.Formatter().parse(text) if name}
    return EngineError("engine_died", **fields)


def test_a_restart_goes_on_where_the_node_stopped(tmp_path: Path) -> None:
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    with LabNode(tmp_path) as node:
        lab = Lab(node, tmp_path)
        node.workers.hold = node.call(_event())
        job = lab.submit(row_sums((5, 4)), lab.file(values, "v.npy"), name="long")
        _until(lambda: lab.job("long").leased == 1)
        lab.client.close()
    with LabNode(tmp_path) as node:
        lab = Lab(node, tmp_path)
        done = lab.wait(lab.job("long"))
        assert (done.job, done.state) == (job.job, "done")
        np.testing.assert_allclose(lab.result(done.outputs[0]), values.sum(1))
        lab.client.close()


def test_a_second_node_on_the_same_state_is_refused(lab: Lab) -> None:
    with pytest.raises(NodeError) as caught:
        open_state(lab.node.settings)
    assert caught.value.code == "state_dir_taken"


def test_a_port_in_use_is_said_before_anything_starts(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NodeError) as caught, LabNode(tmp_path, listen_port=port):
            pass
    assert caught.value.code == "address_in_use"
    assert not (lab_settings(tmp_path).database).exists()


def test_nothing_of_an_array_is_imported_at_the_door() -> None:
    """The HTTP layer itself needs no engine, no sandbox and no array library beyond the planner."""
    import subprocess
    import sys

    code = (
        "import sys, server_stub.node.service;"
        "print([m for m in ('zarr', 'torch', 'PySide6', 'app.engine.child', 'cupy')"
        " if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"


# The grid.


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


def test_devices_compute_a_product_over_tls(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as one, grid.device() as two:
        job = work_until(grid, job, [one, two])
    assert job.state == "done"
    assert job.tasks > 1
    assert job.verified_by.product == job.tasks
    np.testing.assert_allclose(grid.result(job.outputs[0]), a @ b, rtol=1e-3, atol=1e-3)
    assert job.credits > 0
    receipts = grid.node.read("select count(*) from outbox")
    assert receipts == [(job.tasks,)]
    _until(lambda: grid.node.read("select count(*) from blob where refs > 0") == [(0,)])
    store = grid.node.workers.store
    _until(lambda: not list(store.names()))


def test_a_liar_is_caught_by_the_validator_and_the_result_is_right(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as honest, grid.device() as liar:
        liar.spoil = lambda arrays: [array + np.float32(0.5) for array in arrays]
        job = work_until(grid, job, [liar, honest])
        key = liar.grant.device_key
    assert job.state == "done"
    assert job.lost.rejected >= 1
    np.testing.assert_allclose(grid.result(job.outputs[0]), a @ b, rtol=1e-3, atol=1e-3)
    paid = grid.node.read(
        "select count(*) from outbox o join lease l on l.id = o.lease where l.device like ?",
        f"{key}%",
    )
    assert paid == [(0,)]


def test_what_is_signed_is_checked(grid: Lab) -> None:
    from gpugoblin.wire.codec import encode
    from gpugoblin.wire.messages.lease import Exchange
    from gpugoblin.wire.signing import sign_request

    body = encode(Exchange())
    path = "/v1/lease/exchange"

    def code_of(response: Any) -> tuple[int, str]:
        return response.status_code, response.json()["code"]

    with grid.device() as device:
        signed = sign_request(device.key, "POST", path, body, time.time())
        assert device.request("POST", path, body, signed=signed).status_code == 200
        again = device.request("POST", path, body, signed=signed)
        assert code_of(again) == (401, "signature_replayed")
        other = sign_request(device.key, "POST", path, b"{}", time.time())
        assert code_of(device.request("POST", path, body, signed=other))[1] == "signature_wrong"
        old = sign_request(device.key, "POST", path, body, time.time() - 4000)
        late = device.request("POST", path, body, signed=old)
        assert code_of(late) == (401, "signature_clock_wrong")
        device.ticket, kept = "x.y.z", device.ticket
        assert code_of(device.request("POST", path, body))[0] == 401
        device.ticket = kept
        stranger = Ed25519PrivateKey.generate()
        foreign = sign_request(stranger, "POST", path, body, time.time())
        wrong = device.request("POST", path, body, signed=foreign)
        assert code_of(wrong) == (401, "ticket_wrong_device")
        huge = device.request("POST", path, b"x" * 300_000)
        assert huge.status_code == 413
        assert device.request("GET", path).status_code == 405
        unsigned = device.session.post(device.base + path, data=body, timeout=10)
        assert code_of(unsigned) == (401, "signature_missing")
    with grid.device(exp=int(time.time()) - 5, iat=int(time.time()) - 500) as expired:
        assert code_of(expired.request("POST", path, body))[1] == "ticket_expired"
    with grid.device(aud="lab_zzzzzz") as lost:
        assert code_of(lost.request("POST", path, body))[1] == "ticket_wrong_audience"


def test_a_revoked_grant_is_refused_at_once(grid: Lab) -> None:
    from server_stub.node.state import trust

    with grid.device() as device:
        device.exchange()
        node = grid.node.node

        async def revoke() -> None:
            await node.handle(lambda step: trust.revoke(step, 1, [device.grant.jti]))
            node.revoked = await node.store.read(trust.revoked)

        grid.node.call(revoke())
        from gpugoblin.wire.codec import encode
        from gpugoblin.wire.messages.lease import Exchange

        response = device.request("POST", "/v1/lease/exchange", encode(Exchange()))
        assert (response.status_code, response.json()["code"]) == (403, "grant_revoked")


def test_blobs_are_for_the_lease_that_names_them(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as one, grid.device() as two:
        leases = _leases(one)
        blob = leases[0].task.inputs[0].blob
        taken = {"Goblin-Ticket": leases[0].blob_ticket}
        assert two.request("GET", f"/v1/blobs/{blob}", headers=taken).status_code == 401
        assert one.request("GET", f"/v1/blobs/{blob}").json()["code"] == "signature_missing"
        other = one.request("GET", f"/v1/blobs/{'0' * 64}", headers=taken)
        assert (other.status_code, other.json()["code"]) == (403, "blob_not_leased")
        span = one.request("GET", f"/v1/blobs/{blob}", headers={**taken, "Range": "bytes=5-2"})
        assert span.json()["code"] == "parameter_invalid"
        put = two.request("PUT", f"/v1/results/{leases[0].lease}/0?offset=0", b"x")
        assert (put.status_code, put.json()["code"]) == (404, "unknown_lease")


def _leases(device: Device) -> Any:
    found: list[Any] = []

    def have() -> bool:
        found.extend(device.exchange(want=1).leases)
        return bool(found)

    _until(have)
    return found


def test_a_result_with_other_bytes_than_it_named_is_sent_again(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as device:
        lease = _leases(device)[0]
        outputs = device.compute(lease)
        committed = device.exchange(commits=(device.result(lease.lease, outputs),))
        assert committed.uploads == (lease.lease,)
        early = device.upload(lease.lease, [])
        assert (early.state, early.missing) == ("missing", (0,))
        size = outputs[0].nbytes
        path = f"/v1/results/{lease.lease}/0?offset=0"
        thrown = device.request("PUT", path, bytes(size))
        assert thrown.json() == {"stored_bytes": 0, "complete": False}
        assert device.upload(lease.lease, outputs).state == "checking"
        other = [array + np.float32(1) for array in outputs]
        reply = device.exchange(commits=(device.result(lease.lease, other),))
        assert reply.refused[0].lease == lease.lease


def test_an_idle_device_is_answered_as_soon_as_there_is_work(grid: Lab) -> None:
    grid.node.settings.values["device_hold_s"] = 20.0  # type: ignore[index]
    a, b, graph = product(200, 64, 60)
    inputs = grid.file(a, "a.npy"), grid.file(b, "b.npy")
    answered: list[Any] = []
    with grid.device() as device:
        device.exchange()
        waiting = threading.Thread(target=lambda: answered.append(device.exchange(want=1)))
        waiting.start()
        on_grid(grid, graph, *inputs)
        waiting.join()
    assert len(answered[0].leases) == 1


def test_jobs_may_leave_only_with_the_labs_word(tmp_path: Path) -> None:
    with LabNode(tmp_path, lab=LAB) as node:
        lab = Lab(node, tmp_path)
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        refused("not_confirmed", lambda: lab.submit(row_sums((4, 4)), array, executor="grid"))
        assert lab.submit(row_sums((4, 4)), array).plan.executor == "local"
        lab.client.close()


def test_a_job_that_the_grid_would_slow_down_is_refused_with_the_figure(grid: Lab) -> None:
    array = grid.file(np.ones((4, 4), np.float32), "v.npy")
    with grid.device() as device:
        device.exchange(capabilities=capabilities(flops_per_s=1.0, bytes_per_s=1.0))
        error = refused(
            "slower_than_alone",
            lambda: grid.submit(row_sums((4, 4)), array, executor="grid",
                                constraints=Constraints(sandbox="none")),
        )  # fmt: skip
        assert "s" in error.fields["grid"]


# Over HTTPS.


def test_tokens_have_scopes_and_can_be_revoked(grid: Lab) -> None:
    from gpugoblin.wire.transport import Endpoint
    from server_stub.node import users

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
        refused("not_authenticated", lambda: ann.call("GET", "/v1/jobs", JobList))


def test_health_says_what_the_node_is(grid: Lab) -> None:
    import json

    found = json.loads(grid.client.fetch("GET", "/v1/health", max_bytes=10_000))
    assert found["lab"] == LAB
    assert found["state"] == "running"
    assert found["certificate_sha256"] == grid.node.service.tls.sha256  # type: ignore[union-attr]


def test_fold_items_reach_the_workers_after_an_agreement(grid: Lab) -> None:
    """Trusted devices of independent owners verify each other; the lab only folds."""
    from server_stub.node.state.words import Rules

    grid.node.node.rules = Rules(
        catalog_hash=grid.node.node.rules.catalog_hash, vote_after_s=(0.0, 0.0),
        audit_fraction=0.0,
    )  # fmt: skip
    values = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    with grid.device() as one, grid.device() as two:
        for device in (one, two):
            device.exchange()

        async def trust_both() -> None:
            await grid.node.node.store.write(lambda tx: tx.change("update device set passed = 10"))

        grid.node.call(trust_both())
        job = on_grid(grid, row_sums((1000, 4)), grid.file(values, "v.npy"))
        job = work_until(grid, job, [one, two])
    assert job.state == "done"
    assert job.verified_by.equality + job.verified_by.agreement == job.tasks
    assert Fold.__name__ in grid.node.workers.done
    np.testing.assert_allclose(grid.result(job.outputs[0]), values.sum(1))
