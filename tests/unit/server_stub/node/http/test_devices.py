"""Ranges and pieces on the devices' side; the dialogue itself is in `test_service`."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import NodeError
from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.blob import UploadState
from gpugoblin.wire.messages.lease import Abandon, Exchange, Uploaded
from gpugoblin.wire.messages.task import BlobRef, Counters, Result
from gpugoblin.wire.signing import public_key_bytes, sign_claim, sign_request
from server_stub.node.http import devices
from server_stub.node.state import leases, trust
from server_stub.node.state.words import Step
from tests.helpers.lab import (
    Lab,
    leases_of,
    on_grid,
    product,
    until,
)

__all__: list[str] = []

EXCHANGE = "/v1/lease/exchange"


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, (0, 100)), ("bytes=0-9", (0, 10)), ("bytes=90-500", (90, 100)), ("bytes=5-", (5, 100))],
)
def test_ranges(text: str | None, expected: tuple[int, int]) -> None:
    assert devices._range(text, 100) == expected


@pytest.mark.parametrize(
    "text",
    [
        "bytes=9-5",
        "bytes=-5",
        "items=0-5",
        "bytes=100-",
        "bytes=a-b",
        "0-5",
        "bytes=1-x",
        "bytes=\u00b2-5",
        "bytes=0-\u00b9",
        "bytes=0-0,1-1",
    ],
)
def test_ranges_that_cannot_be(text: str) -> None:
    with pytest.raises(NodeError):
        devices._range(text, 100)


def test_pieces_make_the_named_blob_and_only_it(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, 0)
    data = bytes(range(200))
    name = blob_hash(data)
    size = len(data)

    def put(offset: int, piece: bytes) -> UploadState:
        return devices._store(store, "lease_a-0", name, size, offset, piece)

    assert put(0, data[:80]) == UploadState(80, False)
    assert put(0, data[:50]) == UploadState(80, False), "bytes that are here already"
    assert put(150, data[150:]) == UploadState(80, False), "a hole is not filled"
    assert put(40, data[40:120]) == UploadState(120, False), "an overlap goes on"
    assert put(120, data[120:]) == UploadState(size, True)
    assert store.has(name)
    assert put(0, data) == UploadState(size, True)
    wrong = devices._store(store, "lease_b-0", blob_hash(b"other"), size, 0, data)
    assert wrong == UploadState(0, False)


def test_an_empty_output_is_one_empty_piece(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, 0)
    name = blob_hash(b"")
    assert devices._store(store, "lease_a-0", name, 0, 0, b"") == UploadState(0, True)
    assert store.has(name)


def test_what_is_signed_is_checked(grid: Lab) -> None:
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
    with grid.device() as device:
        device.exchange()
        node = grid.node.node

        async def revoke() -> None:
            await node.handle(lambda step: trust.revoke(step, 1, [device.grant.jti]))
            node.revoked = await node.store.read(trust.revoked)

        grid.node.call(revoke())
        response = device.request("POST", "/v1/lease/exchange", encode(Exchange()))
        assert (response.status_code, response.json()["code"]) == (403, "grant_revoked")


def test_blobs_are_for_the_lease_that_names_them(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as one, grid.device() as two:
        lease = leases_of(one)[0]
        blob = lease.task.inputs[0].blob
        taken = {"Goblin-Ticket": lease.blob_ticket}
        assert two.request("GET", f"/v1/blobs/{blob}", headers=taken).status_code == 401
        assert one.request("GET", f"/v1/blobs/{blob}").json()["code"] == "signature_missing"
        other = one.request("GET", f"/v1/blobs/{'0' * 64}", headers=taken)
        assert (other.status_code, other.json()["code"]) == (403, "blob_not_leased")
        span = one.request("GET", f"/v1/blobs/{blob}", headers={**taken, "Range": "bytes=5-2"})
        assert span.json()["code"] == "parameter_invalid"
        put = two.request("PUT", f"/v1/results/{lease.lease}/0?offset=0", b"x")
        assert (put.status_code, put.json()["code"]) == (404, "unknown_lease")


def test_a_ticket_opens_nothing_once_its_leases_are_over(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as device:
        lease = leases_of(device)[0]
        path = f"/v1/blobs/{lease.task.inputs[0].blob}/manifest"
        taken = {"Goblin-Ticket": lease.blob_ticket}
        assert device.request("GET", path, headers=taken).status_code == 200
        device.exchange(abandons=(Abandon(lease.lease, "owner"),))
        refused = device.request("GET", path, headers=taken)
        assert (refused.status_code, refused.json()["code"]) == (403, "blob_not_leased")
        again = leases_of(device)[0]
        assert again.blob_ticket == lease.blob_ticket, "one ticket serves a grant"


def test_a_result_with_other_bytes_than_it_named_is_sent_again(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as device:
        lease = leases_of(device)[0]
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


@pytest.mark.parametrize("ending", ["abandon", "expire"])
def test_parts_of_a_result_go_with_the_lease(grid: Lab, ending: str) -> None:
    node = grid.node.node
    a, b, graph = product(60, 40, 30)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as device:
        lease = leases_of(device)[0]
        outputs = device.compute(lease)
        device.exchange(commits=(device.result(lease.lease, outputs),))
        put = device.request("PUT", f"/v1/results/{lease.lease}/0?offset=0", b"x" * 100)
        assert put.json() == {"stored_bytes": 100, "complete": False}
        assert list(node.blobs.uploads()) == [f"{lease.lease}-0"]
        if ending == "abandon":
            device.exchange(abandons=(Abandon(lease.lease, "owner"),))
        else:
            grid.node.call(node.handle(_expire_all))
        until(lambda: not list(node.blobs.uploads()))


def _expire_all(step: Step) -> None:
    step.tx.change("update lease set until_s = 0")
    leases.expire(step)


@pytest.mark.parametrize("part", [0.5, 1.0])
def test_what_comes_for_a_lease_that_has_just_ended_is_deleted(
    grid: Lab, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """It ends between the look at its row and the writing of the bytes."""
    node, store = grid.node.node, devices._store

    def end(step: Step, lease: str) -> None:
        row = leases.load(step.tx, lease)
        assert row is not None
        leases.close(step, row, "cancelled")

    def late(blobs: BlobStore, key: str, *rest: Any) -> UploadState:
        grid.node.call(node.handle(lambda step: end(step, key.partition("-")[0])))
        return store(blobs, key, *rest)

    a, b, graph = product(60, 40, 30)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as device:
        lease = leases_of(device)[0]
        outputs = device.compute(lease)
        device.exchange(commits=(device.result(lease.lease, outputs),))
        monkeypatch.setattr(devices, "_store", late)
        data = outputs[0].tobytes()
        piece = data[: int(part * len(data))]
        put = device.request("PUT", f"/v1/results/{lease.lease}/0?offset=0", piece)
    assert (put.status_code, put.json()["code"]) == (404, "unknown_lease")
    assert not node.blobs.has(blob_hash(data))
    assert not list((node.blobs.root / "parts").iterdir())


def test_an_upload_has_one_writer_at_a_time(grid: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    active: list[int] = []
    most: list[int] = []
    store = devices._store

    def slow(*given: Any) -> UploadState:
        active.append(1)
        most.append(len(active))
        time.sleep(0.1)
        try:
            return store(*given)
        finally:
            active.pop()

    a, b, graph = product(60, 40, 30)
    on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as device:
        lease = leases_of(device)[0]
        outputs = device.compute(lease)
        device.exchange(commits=(device.result(lease.lease, outputs),))
        monkeypatch.setattr(devices, "_store", slow)
        data = outputs[0].tobytes()
        path = f"/v1/results/{lease.lease}/0?offset=0"
        senders = [
            threading.Thread(target=lambda: device.request("PUT", path, data[:-1]))
            for _ in range(6)
        ]
        for sender in senders:
            sender.start()
            time.sleep(0.03)
        for sender in senders:
            sender.join()
    assert most == [1] * 6


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


def test_no_work_is_given_to_a_device_that_has_hung_up(grid: Lab) -> None:
    """Its lease would keep the task from everybody until it runs out."""
    grid.node.settings.values["device_hold_s"] = 20.0  # type: ignore[index]
    a, b, graph = product(200, 64, 60)
    inputs = grid.file(a, "a.npy"), grid.file(b, "b.npy")
    with grid.device() as gone:
        gone.exchange()
        with pytest.raises(requests.ReadTimeout):
            gone.request("POST", EXCHANGE, encode(Exchange(want=1)), limit_s=0.3)
    time.sleep(0.2)  # the node hears of it at once, but after us
    on_grid(grid, graph, *inputs)
    with grid.device() as there:
        there.exchange()
        until(lambda: there.exchange(want=1).leases)
    (holder,) = grid.node.read("select distinct device from lease")
    assert public_key_bytes(gone.key).hex() not in holder[0]


def test_a_name_of_another_size_is_not_the_result(grid: Lab) -> None:
    """A device that names a blob which is here anyway, an input, must not end the job by it."""
    a, b, graph = product(60, 40, 30)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as liar, grid.device() as honest:
        lease = leases_of(liar)[0]
        claim = sign_claim(liar.key, lease.lease, liar.grant.jti)
        refs = (BlobRef(lease.task.inputs[0].blob, a.shape[0] * b.shape[1] * 4),)
        result = Result(
            lease=lease.lease, outputs=refs, engine_build="x", driver="y", kernel_set="1" * 64,
            sandbox_level="full", counters=Counters(0.1, 1), claim=claim,
        )  # fmt: skip
        assert liar.exchange(commits=(result,)).uploads == (lease.lease,)
        told = liar.request("POST", "/v1/lease/uploaded", encode(Uploaded(lease.lease)))
        assert told.json() == {"state": "missing", "missing": [0]}
        put = liar.request("PUT", f"/v1/results/{lease.lease}/0?offset=0", b"x" * 7200)
        assert put.json() == {"stored_bytes": 0, "complete": False}
        assert grid.job(job.job).state == "running"
        assert honest.exchange().leases == ()


def test_a_large_body_is_read_from_holders_of_a_grant_only(grid: Lab) -> None:
    """The answer comes although the body never does."""
    with grid.device() as device:
        address = ("127.0.0.1", grid.node.service.port)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        head = "PUT /v1/results/lease_a/0?offset=0 HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608"
        forged = f"Goblin-Grant: {device.ticket}\r\nGoblin-Key: {'0' * 64}"
        for extra, code in (
            ("X: y", b"grant_missing"),
            (forged, b"ticket_wrong_device"),
            (f"Goblin-Grant: {device.ticket}\r\nGoblin-Key: zz", b"signature_malformed"),
        ):
            with socket.create_connection(address) as plain, context.wrap_socket(plain) as sent:
                sent.settimeout(20.0)
                sent.sendall(f"{head}\r\n{extra}\r\n\r\n".encode())
                answer = sent.recv(65536)
                while code not in answer and (more := sent.recv(65536)):
                    answer += more
                assert code in answer
