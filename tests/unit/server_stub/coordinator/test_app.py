"""The HTTP face, driven without sockets: order of checks, statuses, nothing leaks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.contact import Contact
from gpugoblin.wire.messages.enrol import EnrolCode, EnrolMail, EnrolPoll, EnrolStart
from gpugoblin.wire.signing import public_key_bytes, sign_request
from server_stub.coordinator.app import MESSAGE_ROUTES
from server_stub.coordinator.gate import status_of
from server_stub.coordinator.handlers import enrol
from server_stub.coordinator.handlers.signin import tag_of
from server_stub.coordinator.store import SqliteStore, create
from tests.helpers.coordinator_front import KEY, Front, Reply

START = encode(EnrolStart(public_key_bytes(KEY)))
PATH = "/v1/enrol/start"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    create(tmp_path / "db")
    opened = SqliteStore(tmp_path / "db")
    yield opened
    opened.close()


@pytest.fixture
def front(store: SqliteStore) -> Front:
    return Front(store)


def refused(reply: Reply, status: int, code: str) -> dict[str, Any]:
    assert (reply.status, reply.json["code"]) == (status, code)
    assert set(reply.json) == {"code", "what", "next_step", "fields"}
    fields: dict[str, Any] = reply.json["fields"]
    return fields


def test_a_signed_message_is_answered(front: Front) -> None:
    reply = front.signed(PATH, START)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    body = encode(EnrolPoll(reply.json["enrolment"]))
    assert front.signed("/v1/enrol/poll", body).json["state"] == "pending"


def test_status_is_public(front: Front) -> None:
    reply = front.send("GET", "/v1/status")
    assert reply.status == 200
    assert reply.json["coordinator_key"] == front.service.house.public_key.hex()
    assert reply.json["devices"] == 0


def test_unsigned_and_wrongly_signed(front: Front) -> None:
    refused(front.send("POST", PATH, START), 401, "signature_missing")
    headers = sign_request(KEY, "POST", "/v1/enrol/poll", START, front.clock.now_s)
    refused(front.send("POST", PATH, START, headers), 401, "signature_wrong")
    headers = sign_request(KEY, "POST", PATH, START, front.clock.now_s - 1000)
    fields = refused(front.send("POST", PATH, START, headers), 401, "signature_clock_wrong")
    assert fields["sent_utc"] < fields["own_utc"]


def test_the_query_is_signed_too(front: Front) -> None:
    headers = sign_request(KEY, "GET", "/v1/node/revocations?lab=lab_a", b"", front.clock.now_s)
    reply = front.send("GET", "/v1/node/revocations?lab=lab_b", b"", headers)
    refused(reply, 401, "signature_wrong")
    reply = front.send("GET", "/v1/node/revocations?lab=lab_a", b"", headers)
    refused(reply, 403, "coordinator_lab_unknown")


def test_a_request_is_answered_once_even_when_it_was_refused(front: Front) -> None:
    headers = sign_request(KEY, "POST", PATH, START, front.clock.now_s)
    assert front.send("POST", PATH, START, headers).status == 200
    refused(front.send("POST", PATH, START, headers), 409, "signature_replayed")
    body = encode(Contact(cards=()))
    headers = sign_request(KEY, "POST", "/v1/contact", body, front.clock.now_s)
    refused(front.send("POST", "/v1/contact", body, headers), 403, "device_unknown")
    refused(front.send("POST", "/v1/contact", body, headers), 409, "signature_replayed")


def test_a_refusal_undoes_what_the_handler_did(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(house: Any, tx: Any, *rest: Any) -> Any:
        tx.execute("INSERT INTO account (account, name, created_s) VALUES ('a', 'ann', 0)")
        raise CoordinatorError("device_unknown")

    monkeypatch.setitem(MESSAGE_ROUTES, PATH, (EnrolStart, half))
    second = Front(front.store)
    refused(second.signed(PATH, START), 403, "device_unknown")
    rows = front.store.submit(lambda tx: tx.rows("SELECT * FROM account")).result(10)
    assert rows == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"public_key":1}',
        b'{"public_key":"AAAA"}',
        b"\xff",
        b"[" * 4000,
    ],
)
def test_hostile_bodies(front: Front, body: bytes) -> None:
    refused(front.signed(PATH, body), 400, "message_malformed")


@pytest.mark.parametrize("path", sorted(MESSAGE_ROUTES))
def test_bodies_over_the_bound_are_not_read(front: Front, path: str) -> None:
    limit = MESSAGE_ROUTES[path][0].__goblin_message__.max_bytes  # type: ignore[attr-defined]
    reply = front.send("POST", path, b"", {"Content-Length": str(limit + 1)}, hangs=True)
    refused(reply, 413, "message_too_large")
    assert reply.headers["connection"] == "close"
    lying = front.send("POST", path, [b"x" * limit, b"x", b"x" * limit], {"Content-Length": "5"})
    refused(lying, 413, "message_too_large")
    absurd = front.send("POST", path, b"", {"Content-Length": "9" * 5000}, hangs=True)
    refused(absurd, 413, "message_too_large")


def test_a_body_that_does_not_come(store: SqliteStore) -> None:
    front = Front(store, chosen={"body_s": 0.1})
    refused(front.send("POST", PATH, START[:5], hangs=True), 408, "coordinator_request_slow")


def test_too_many_from_one_network_and_from_one_key(store: SqliteStore) -> None:
    front = Front(store, chosen={"requests_burst": 5, "requests_per_s": 1.0})
    for number in range(5):
        assert front.send("GET", "/v1/status", address=f"192.0.2.{number}").status == 200
    reply = front.send("GET", "/v1/status")
    assert refused(reply, 429, "coordinator_rate_limited")["scope"] == "network"
    assert reply.headers["retry-after"] == "1"
    assert front.send("GET", "/v1/status", address="198.51.100.1").status == 200
    front.clock.now_s += 1
    assert front.send("GET", "/v1/status").status == 200
    front = Front(store, chosen={"key_requests_burst": 2})
    for number in range(2):
        assert front.signed(PATH, START, address=f"192.0.{number}.1").status == 200
    reply = front.signed(PATH, START, address="192.0.9.1")
    assert refused(reply, 429, "coordinator_rate_limited")["scope"] == "key"


def test_forwarded_addresses_count_only_from_trusted_proxies(store: SqliteStore) -> None:
    chosen: dict[str, object] = {"requests_burst": 1, "requests_per_s": 0.01}
    for trusted, status in ((["10.0.0.1"], 200), ([], 429)):
        front = Front(store, chosen={**chosen, "trusted_proxies": trusted})
        for number, expected in ((1, 200), (2, status)):
            headers = {"X-Forwarded-For": f"203.0.113.9, 192.{number}.2.1"}
            assert front.send("GET", "/v1/status", b"", headers, "10.0.0.1").status == expected


def test_the_log_tells_of_sign_ins_at_devices(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    front = Front(store, chosen={"mail_host": "127.0.0.1"})
    enrolment = front.signed(PATH, START).json["enrolment"]
    asked = encode(EnrolMail(enrolment, "ann@example.org", "en"))
    ask = front.signed("/v1/enrol/mail", asked).json["ask"]
    letter = store.submit(lambda tx: tx.row("SELECT words_letter FROM mail")).result(10)
    assert letter is not None
    code = "".join(filter(str.isdigit, letter[0].splitlines()[2]))
    for tried, status in ((f"{(int(code) + 1) % 10**8:08}", 403), (code, 200)):
        body = encode(EnrolCode(enrolment, ask, tried))
        assert front.signed("/v1/enrol/code", body).status == status
    lines = [one.getMessage() for one in caplog.records if "sign-in" in one.getMessage()]
    assert lines == [
        f"sign-in: refused, login_code_wrong [{tag_of(ask)}]", f"sign-in: a device [{tag_of(ask)}]",
    ]  # fmt: skip
    assert code not in caplog.text


def test_unknown_routes(front: Front) -> None:
    refused(front.send("GET", "/v1/nothing"), 404, "coordinator_route_unknown")
    wrong_method = front.send("GET", PATH)
    refused(wrong_method, 405, "coordinator_route_unknown")
    assert wrong_method.headers["allow"] == "POST"
    refused(front.send("GET", "/" + "x" * 5000), 404, "coordinator_route_unknown")


def test_defects_tell_nothing(
    front: Front, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("secret of ours")

    monkeypatch.setitem(MESSAGE_ROUTES, PATH, (EnrolStart, broken))
    reply = Front(front.store).signed(PATH, START)
    refused(reply, 500, "coordinator_internal")
    assert b"secret" not in reply.body
    assert "secret of ours" in caplog.text
    assert START.decode() not in caplog.text


def test_a_store_that_fails(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in ("coordinator_database_full", "coordinator_stopping"):
        future: Future[Any] = Future()
        future.set_exception(CoordinatorError(code))
        monkeypatch.setattr(front.store, "submit", lambda work, future=future: future)
        reply = front.signed(PATH, START)
        refused(reply, 503, code)
        assert reply.headers["retry-after"] == "30"


def test_every_handler_has_its_route() -> None:
    assert set(MESSAGE_ROUTES) == {
        "/v1/enrol/start", "/v1/enrol/poll", "/v1/enrol/mail", "/v1/enrol/code",
        "/v1/contact", "/v1/account/machines", "/v1/node/demand", "/v1/node/receipts",
    }  # fmt: skip
    assert MESSAGE_ROUTES[PATH] == (EnrolStart, enrol.start)
    assert status_of(CoordinatorError("device_unknown")) == 403


def test_replies_are_messages(front: Front) -> None:
    tree = msgspec.json.decode(front.signed(PATH, START).body)
    assert set(tree) == {"enrolment", "user_code", "fingerprint", "interval_s", "expires_s"}
