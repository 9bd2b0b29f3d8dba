"""A real coordinator over the loopback: enrol, contact, grant, receipt, revocation, kill -9.

The device and the lab node here are a few lines each, so that this file proves the coordinator and
nothing else.
"""

from __future__ import annotations

import gc
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import requests

from gpugoblin.errors import WireError
from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.contact import (
    Contact,
)
from gpugoblin.wire.messages.enrol import (
    EnrolCode,
    EnrolCodeReply,
    EnrolMail,
    EnrolMailReply,
    EnrolPoll,
    EnrolPollReply,
    EnrolStart,
    EnrolStartReply,
)
from gpugoblin.wire.messages.receipt import ReceiptBatchReply
from tests.helpers.coordinator import write_config
from tests.helpers.coordinator_process import Device, Lab, Party, Server
from tests.helpers.mailbox import Mailboxes

M = TypeVar("M", bound=msgspec.Struct)
START_LIMIT_S = 30.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(write_config(tmp_path, enrol_interval_s=0.05, contact_s=0.2, grant_s=600))
    running.start()
    yield running
    if running.process is not None:
        running.end(signal.SIGKILL)


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


def test_a_machine_is_taken_in_by_the_letter_of_its_owner(tmp_path: Path) -> None:
    with Mailboxes() as boxes:
        config = write_config(
            tmp_path, enrol_interval_s=0.05, mail_host="127.0.0.1", mail_port=boxes.port,
            mail_tls="off",
        )  # fmt: skip
        running = Server(config)
        running.start()
        try:
            _taken_in(Party(running), boxes)
        finally:
            running.end(signal.SIGTERM)


def _taken_in(device: Party, boxes: Mailboxes) -> None:
    started = device.post("/v1/enrol/start", EnrolStart(device.public_key), EnrolStartReply)
    ask = device.post(
        "/v1/enrol/mail", EnrolMail(started.enrolment, "cleo@example.org", "fr"), EnrolMailReply
    ).ask
    code = "".join(filter(str.isdigit, boxes.code("cleo@example.org")))
    wrong = EnrolCode(started.enrolment, ask, f"{(int(code) + 1) % 10**8:08}")
    refused = device.raw("POST", "/v1/enrol/code", encode(wrong))
    assert (refused.status_code, refused.json()["code"]) == (403, "login_code_wrong")
    taken = device.post(
        "/v1/enrol/code", EnrolCode(started.enrolment, ask, code), EnrolCodeReply
    ).device
    polled = device.post("/v1/enrol/poll", EnrolPoll(started.enrolment), EnrolPollReply)
    assert (polled.state, polled.device) == ("approved", taken)
