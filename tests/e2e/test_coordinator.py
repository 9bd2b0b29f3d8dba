"""A real coordinator over the loopback: enrol, contact, grant, receipt, revocation, kill -9.

The device and the lab node here are a few lines each, so that this file proves the coordinator and
nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
import requests
from requests.adapters import HTTPAdapter

from gpugoblin.errors import WireError
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.contact import (
    Contact,
    ContactReply,
    Demand,
    DemandReply,
    Grant,
    Revocations,
)
from gpugoblin.wire.messages.enrol import EnrolPoll, EnrolPollReply, EnrolStart, EnrolStartReply
from gpugoblin.wire.messages.receipt import Receipt, ReceiptBatch, ReceiptBatchReply
from gpugoblin.wire.signing import public_key_bytes, sign_claim, sign_request
from gpugoblin.wire.tickets import verify_grant, verify_revocations
from server_stub.coordinator.cli import main
from tests.helpers.coordinator import card, write_config

M = TypeVar("M", bound=msgspec.Struct)
START_LIMIT_S = 30.0


class Pinned(HTTPAdapter):
    """Trusts one certificate by its digest."""

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options, assert_fingerprint=self.sha256)


class Server:
    """A coordinator process that can be killed and started again on the same directory."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.address = ""
        self.sha256 = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "server_stub.coordinator", "serve", "--config",
             str(self.config)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        assert line, self.process.communicate(timeout=START_LIMIT_S)
        assert line[0] == "ready"
        self.address = line[1]
        self.sha256 = line[2].partition("=")[2] if len(line) > 2 else ""

    def end(self, number: int) -> int:
        """Sends a signal and waits; the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=START_LIMIT_S)
        assert "Traceback" not in errors, errors
        status = self.process.returncode
        self.process = None
        return status

    def run(self, *words: str, status: int = 0) -> Any:
        """An operator's command beside the running server."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = main([*words, "--config", str(self.config), "--json"])
        text = printed.getvalue()
        assert code == status
        return json.loads(text) if text.strip() else None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(write_config(tmp_path, enrol_interval_s=0.05, contact_s=0.2, grant_s=600))
    running.start()
    yield running
    if running.process is not None:
        running.end(signal.SIGKILL)


class Party:
    """A key that talks to the coordinator."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.key = make_key()
        self.public_key = public_key_bytes(self.key)

    def session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.verify = False
        session.mount("https://", Pinned(self.server.sha256))
        return session

    def post(self, path: str, message: msgspec.Struct, kind: type[M]) -> M:
        body = encode(message)
        reply = self.raw("POST", path, body)
        assert reply.status_code == 200, reply.text
        return decode(kind, reply.content)

    def raw(self, method: str, path: str, body: bytes, clock_s: float = 0.0) -> requests.Response:
        headers = sign_request(self.key, method, path, body, time.time() + clock_s)
        with self.session() as session:
            return session.request(
                method, self.server.address + path, data=body, headers=headers, timeout=20
            )


class Device(Party):
    """A contributor's machine with one card."""

    def enrol(self, account: str) -> str:
        started = self.post("/v1/enrol/start", EnrolStart(self.public_key), EnrolStartReply)
        self.server.run("approve", started.user_code, "--account", account)
        polled = self.post("/v1/enrol/poll", EnrolPoll(started.enrolment), EnrolPollReply)
        assert polled.state == "approved"
        assert polled.device is not None
        return polled.device

    def contact(self, holding: tuple[Any, ...] = (), wants: tuple[int, ...] = (0,)) -> ContactReply:
        message = Contact(cards=(card(0),), holding=holding, wants=wants)
        return self.post("/v1/contact", message, ContactReply)


class Lab(Party):
    """A lab node."""

    def register(self, name: str) -> None:
        made = self.server.run(
            "lab", "add", name, "--key", self.public_key.hex(), "--address", "https://127.0.0.1:9"
        )
        self.name = made["lab"]
        reply = self.post("/v1/node/demand", Demand(self.name, 10), DemandReply)
        assert reply.coordinator_key.hex() == made["coordinator_key"]
        self.coordinator_key = reply.coordinator_key

    def verified(self, ticket: str, device: Device) -> Grant:
        return verify_grant(
            ticket, keys=[self.coordinator_key], audience=self.name, now_s=time.time(),
            device_key=device.public_key,
        )  # fmt: skip

    def revoked(self) -> tuple[int, tuple[str, ...]]:
        path = f"/v1/node/revocations?lab={self.name}"
        reply = decode(Revocations, self.raw("GET", path, b"").content)
        found = verify_revocations(
            reply.ticket, keys=[self.coordinator_key], audience=self.name, now_s=time.time()
        )
        return found.number, found.revoked

    def receipt(self, device: Device, grant: Grant, number: int) -> Receipt:
        letters = "abcdefghijklmnopqrstuvwxyz"
        name = letters[number // 26 % 26] + letters[number % 26]
        lease: Any = f"lease_{name}"
        return Receipt(
            receipt=f"receipt_{name}", grant=grant.jti, lease=lease, units=1.5,  # type: ignore[arg-type]
            device_signature=sign_claim(device.key, lease, grant.jti), verified_s=time.time(),
        )  # fmt: skip

    def book(self, *receipts: Receipt) -> ReceiptBatchReply:
        batch = ReceiptBatch(self.name, receipts)
        return self.post("/v1/node/receipts", batch, ReceiptBatchReply)


def test_from_enrolment_to_credits_and_revocation(server: Server) -> None:
    server.run("account", "add", "ann")
    lab, device = Lab(server), Device(server)
    lab.register("lab-a")
    name = device.enrol("ann")
    reply = device.contact()
    assert reply.device == name
    (offer,) = reply.grants
    grant = lab.verified(offer.ticket, device)
    with pytest.raises(WireError):
        lab.verified(offer.ticket, Device(server))
    receipts = [lab.receipt(device, grant, number) for number in range(20)]
    assert lab.book(*receipts).booked == 20
    assert lab.book(*receipts) == ReceiptBatchReply(booked=0, known=20)
    assert server.run("credits") == [{"subject": "ann", "units": 30.0, "receipts": 20}]
    assert lab.revoked() == (0, ())
    server.run("revoke", "grant", grant.jti)
    assert lab.revoked() == (1, (grant.jti,))
    assert device.contact((grant.jti,), ()).revoked == (grant.jti,)
    server.run("revoke", "device", name)
    refused = device.raw("POST", "/v1/contact", encode(Contact(cards=())))
    assert (refused.status_code, refused.json()["code"]) == (403, "device_revoked")
    assert server.run("check") == {"ledger_faults": 0, "audit_broken_at": 0}
    assert server.end(signal.SIGTERM) == 0


# A server that dies within a TLS handshake leaves urllib3's socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kill_at_any_moment_loses_nothing_that_was_answered(server: Server) -> None:
    server.run("account", "add", "ann")
    lab, device = Lab(server), Device(server)
    lab.register("lab-a")
    device.enrol("ann")
    grant = lab.verified(device.contact().grants[0].ticket, device)
    answered, sent = 0, 0
    for round_ in range(3):
        reply = lab.book(lab.receipt(device, grant, sent))  # it serves: the time runs from here
        sent += 1
        answered += reply.booked + reply.known
        killer = threading.Timer(0.05 + 0.06 * round_, lambda: server.end(signal.SIGKILL))
        killer.start()
        try:
            while sent < 26 * 26:
                reply = lab.book(lab.receipt(device, grant, sent))
                sent += 1  # an unanswered one is sent again
                answered += reply.booked + reply.known
        except (requests.ConnectionError, requests.Timeout):
            pass
        killer.join()
        server.start()
        (credit,) = server.run("credits") or [{"receipts": 0}]
        # The last one may have been booked although its answer was lost.
        assert answered <= credit["receipts"] <= answered + 1
    assert answered >= 3
    assert device.contact().grants[0].lab == lab.name
    assert lab.book(lab.receipt(device, grant, sent)).booked in (0, 1)
    assert server.run("check") == {"ledger_faults": 0, "audit_broken_at": 0}
    gc.collect()  # here, where such a socket is expected, and not in a later test


def test_wrong_clock_and_hostile_requests(server: Server) -> None:
    party = Party(server)
    body = encode(EnrolStart(party.public_key))
    reply = party.raw("POST", "/v1/enrol/start", body, clock_s=-4000)
    assert reply.json()["code"] == "signature_clock_wrong"
    assert reply.json()["fields"]["own_utc"][:13] != reply.json()["fields"]["sent_utc"][:13]
    assert party.raw("POST", "/v1/contact", b"x" * 70_000).status_code == 413
    assert party.raw("POST", "/v1/contact", b"[" * 9_000).status_code == 400
    host, port = server.address.removeprefix("https://").split(":")
    for garbage in (b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(garbage)
    with party.session() as session:
        assert session.get(server.address + "/v1/status", timeout=20).status_code == 200


def test_a_locked_and_then_free_database(server: Server) -> None:
    party = Party(server)
    body = encode(EnrolStart(party.public_key))
    database = server.config.parent / "state" / "coordinator.sqlite3"
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    reply = party.raw("POST", "/v1/enrol/start", body)
    other.execute("ROLLBACK")
    other.close()
    assert (reply.status_code, reply.json()["code"]) == (503, "coordinator_database_busy")
    assert "Retry-After" in reply.headers
    assert party.raw("POST", "/v1/enrol/start", body).status_code == 200


def test_a_port_in_use_and_a_missing_key(server: Server, tmp_path: Path) -> None:
    port = int(server.address.rpartition(":")[2])
    config = write_config(tmp_path / "second", port=port)
    words = [
        sys.executable,
        "-I",
        "-m",
        "server_stub.coordinator",
        "serve",
        "--config",
        str(config),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "coordinator_port_in_use" in done.stderr
    (tmp_path / "second" / "state" / "ticket.key").unlink()
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "key_file_unreadable" in done.stderr
