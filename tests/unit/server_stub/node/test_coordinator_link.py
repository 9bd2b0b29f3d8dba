"""The line to the coordinator: what is sent, what happens when it is away."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.ids import LabId
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.messages.contact import Demand, DemandReply, Revocations
from gpugoblin.wire.messages.receipt import ReceiptBatch, ReceiptBatchReply, ReceiptRefusal
from gpugoblin.wire.signing import check_request, public_key_bytes
from gpugoblin.wire.tickets import RevocationList, sign_revocations
from server_stub.node.coordinator_link import CoordinatorLink, SignedHttp, backoff_s
from tests.helpers.node import LabNode

__all__: list[str] = []

LAB = "lab_abcdef"
KEY = Ed25519PrivateKey.generate()


class Coordinator:
    """What the link talks to, without a socket. `away` refuses everything."""

    def __init__(self) -> None:
        self.key = KEY
        self.away = False
        self.number = 1
        self.revoked: tuple[str, ...] = ()
        self.refuse: set[str] = set()
        self.booked: list[str] = []
        self.demands: list[Demand] = []

    def close(self) -> None:
        pass

    def call(self, method: str, path: str, body: bytes, reply: type[Any]) -> Any:
        if self.away:
            raise NodeError("coordinator_away", address="nowhere", reason="a test")
        if path == "/v1/node/demand":
            self.demands.append(decode(Demand, body))
            return DemandReply(public_key_bytes(self.key), 30.0)
        if path.startswith("/v1/node/revocations"):
            now = int(time.time())
            listed = RevocationList(
                jti="revs_aaaa", aud=LabId(LAB), exp=now + 600, iat=now, number=self.number,
                revoked=tuple(sorted(self.revoked)),  # type: ignore[arg-type]
            )  # fmt: skip
            return Revocations(self.number, float(now), sign_revocations(self.key, listed))
        batch = decode(ReceiptBatch, body)
        refused = tuple(
            ReceiptRefusal(one.receipt, "over_quota")
            for one in batch.receipts
            if one.receipt in self.refuse
        )
        self.booked += [r.receipt for r in batch.receipts if r.receipt not in self.refuse]
        return ReceiptBatchReply(len(batch.receipts) - len(refused), 0, refused)


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[tuple[LabNode, Coordinator, CoordinatorLink]]:
    with LabNode(tmp_path, lab=LAB) as node:
        coordinator = Coordinator()
        link = CoordinatorLink(node.node, node.service.tickets, coordinator)  # type: ignore[arg-type]
        yield node, coordinator, link


def add_receipts(node: LabNode, *names: str) -> None:
    async def add() -> None:
        def body(tx: Any) -> None:
            for name in names:
                tx.change(
                    "insert into outbox values(?, 'grant_aaaa', ?, ?, 1.0, 5.0, null, '')",
                    (name, name.replace("receipt", "lease"), b"s" * 64),
                )

        await node.node.store.write(body)

    node.call(add())


def test_demand_teaches_the_key_and_it_is_kept(linked: Any) -> None:
    node, coordinator, link = linked
    node.call(link.once())
    assert coordinator.demands[0].lab == LAB
    kept = node.read("select value from meta where key = 'coordinator_key'")
    assert kept == [(public_key_bytes(KEY).hex(),)]


def test_revocations_take_effect_and_old_lists_do_not(linked: Any) -> None:
    node, coordinator, link = linked
    coordinator.revoked, coordinator.number = ("grant_bbbb",), 7
    node.call(link.once())
    assert node.node.revoked == {"grant_bbbb"}
    coordinator.revoked, coordinator.number = (), 6
    node.call(link.once())
    assert node.node.revoked == {"grant_bbbb"}


def test_receipts_wait_while_the_coordinator_is_away(linked: Any) -> None:
    node, coordinator, link = linked
    add_receipts(node, "receipt_aaaa", "receipt_bbbb")
    coordinator.away = True
    with pytest.raises(GoblinError):
        node.call(link.once())
    assert node.read("select count(*) from outbox where sent_s is null") == [(2,)]
    coordinator.away = False
    coordinator.refuse = {"receipt_bbbb"}
    node.call(link.once())
    assert coordinator.booked == ["receipt_aaaa"]
    assert node.read("select count(*) from outbox where sent_s is null") == [(0,)]
    refused = node.read("select receipt, refused from outbox where refused != ''")
    assert refused == [("receipt_bbbb", "over_quota")]


def test_another_key_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    with LabNode(tmp_path, lab=LAB, coordinator_key="ab" * 32) as node:
        link = CoordinatorLink(node.node, node.service.tickets, Coordinator())  # type: ignore[arg-type]
        with pytest.raises(NodeError) as caught:
            node.call(link.once())
        assert caught.value.code == "coordinator_key_differs"


def test_a_coordinator_that_is_away_stops_nothing(tmp_path: Path) -> None:
    import numpy as np

    from tests.helpers.lab import Lab, row_sums

    given = {"lab": LAB, "coordinator_address": "http://127.0.0.1:9"}
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as lab:
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        assert lab.wait(lab.submit(row_sums((4, 4)), array)).state == "done"
        link = node.service.link
        assert link is not None
        ends_s = time.monotonic() + 10.0
        while not link.last_error:
            assert time.monotonic() < ends_s
            time.sleep(0.01)
        assert "coordinator_away" in link.last_error


def test_pauses_grow_with_full_jitter_up_to_a_limit() -> None:
    rng = random.Random(1)
    early = [backoff_s(0, rng) for _ in range(200)]
    late = [backoff_s(50, rng) for _ in range(200)]
    assert max(early) <= 1.0
    assert 200.0 < max(late) <= 300.0
    assert min(late) < 30.0


class _Answer(BaseHTTPRequestHandler):
    status, body = 200, b""
    seen: list[tuple[str, str, dict[str, str], bytes]]

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length", 0))
        data = self.rfile.read(size)
        type(self).seen.append(("POST", self.path, dict(self.headers), data))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[tuple[str, type[_Answer]]]:
    kind = type("Answer", (_Answer,), {"seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_requests_are_signed_by_the_node(answering: Any) -> None:
    address, kind = answering
    kind.body = encode(DemandReply(b"k" * 32, 30.0))
    key = Ed25519PrivateKey.generate()
    http = SignedHttp(address, "", key, time.time)
    body = encode(Demand(LabId(LAB), 3))
    reply = http.call("POST", "/v1/node/demand", body, DemandReply)
    http.close()
    assert reply.next_poll_s == 30.0
    method, path, headers, data = kind.seen[0]
    assert check_request(headers, method, path, data, time.time()).public_key == (
        public_key_bytes(key)
    )


def test_what_the_coordinator_refuses_is_raised_in_its_words(answering: Any) -> None:
    address, kind = answering
    kind.status = 403
    kind.body = msgspec.json.encode(
        {"code": "coordinator_lab_unknown", "what": "No.", "next_step": "Ask.", "fields": {}}
    )
    http = SignedHttp(address, "", Ed25519PrivateKey.generate(), time.time)
    with pytest.raises(GoblinError) as caught:
        http.call("POST", "/v1/node/demand", b"{}", DemandReply)
    assert caught.value.code == "coordinator_lab_unknown"
    kind.body = b"<html>"
    with pytest.raises(GoblinError) as caught:
        http.call("POST", "/v1/node/demand", b"{}", DemandReply)
    assert caught.value.code == "coordinator_away"
    http.close()
