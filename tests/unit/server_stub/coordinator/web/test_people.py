"""The pages of a signed-in person."""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.wire.codec import encode
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.enrol import EnrolStart
from gpugoblin.wire.signing import public_key_bytes
from server_stub.web import forms
from tests.helpers.coordinator_front import Browser, Front


def enrolled(front: Front, key: Ed25519PrivateKey) -> dict[str, str]:
    reply = front.signed("/v1/enrol/start", encode(EnrolStart(public_key_bytes(key))), key=key)
    assert reply.status == 200
    return {"code": reply.json["user_code"], "fingerprint": reply.json["fingerprint"]}


def test_a_machine_is_added_by_its_code_and_revoked(ann: Browser, front: Front) -> None:
    shown = enrolled(front, make_key())
    reply = ann.post("/machines", {"act": "approve", **shown})
    assert reply.status == 303
    device = reply.headers["location"].rpartition("=")[2]
    assert shown["fingerprint"] in ann.get("/machines").text
    ann.post("/machines", {"act": "revoke", "device": device})
    assert ">revoked<" in ann.get("/machines").body.decode()


def test_another_fingerprint_adds_nothing(ann: Browser, front: Front) -> None:
    shown = enrolled(front, make_key())
    reply = ann.post("/machines", {"act": "approve", **shown, "fingerprint": "0" * 16})
    assert reply.status == 409
    assert "Nothing was approved" in reply.text


def test_nobody_revokes_the_machine_of_another(ann: Browser, front: Front) -> None:
    other = Browser(front)
    other.sign_in("bob@example.org")
    reply = other.post("/machines", {"act": "approve", **enrolled(front, make_key())})
    device = reply.headers["location"].rpartition("=")[2]
    assert ann.post("/machines", {"act": "revoke", "device": device}).status == 404
    assert ">revoked<" not in other.get("/machines").body.decode()


def test_wrong_codes_run_out(ann: Browser, front: Front) -> None:
    given = {"act": "approve", "code": "BCDF-GHJK", "fingerprint": "0"}
    replies = [ann.post("/machines", given) for _ in range(6)]
    assert "tried too many" in replies[-1].text


def test_name_and_language_are_kept(ann: Browser) -> None:
    ann.post("/account", {"name": "ann", "language": "fr", "listed": "1"})
    page = ann.get("/account").body.decode()
    assert 'value="ann"' in page
    assert " checked" in page
    assert ann.cookies[forms.LANGUAGE] == "fr"


def test_a_name_of_another_is_refused(ann: Browser, front: Front) -> None:
    ann.post("/account", {"name": "ann", "language": "en"})
    other = Browser(front)
    other.sign_in("bob@example.org")
    assert other.post("/account", {"name": "ann", "language": "en"}).status == 409


def test_export_holds_what_is_stored(ann: Browser, front: Front) -> None:
    ann.post("/machines", {"act": "approve", **enrolled(front, make_key())})
    reply = ann.get("/account/export")
    found = json.loads(reply.body)
    assert found["account"]["mailbox"] == "ann@example.org"
    assert len(found["machines"]) == 1
    assert found["record"]
    assert "attachment" in reply.headers["content-disposition"]


def test_deleting_asks_for_the_name_and_a_fresh_sign_in(ann: Browser, front: Front) -> None:
    ann.post("/account", {"name": "ann", "language": "en"})
    assert ann.post("/account/close", {"name": "anna"}).status == 409
    front.clock.now_s += 3600
    assert "last minutes" in ann.post("/account/close", {"name": "ann"}).text
    ann.sign_in("ann@example.org")
    assert ann.post("/account/close", {"name": "ann"}).headers["location"] == "/"
    left = front.store.submit(
        lambda tx: tx.rows("SELECT name, mailbox FROM account WHERE closed_s IS NOT NULL")
    ).result(10)
    assert [(name.startswith("former-"), mailbox) for name, mailbox in left] == [(True, None)]


def test_a_mailbox_may_come_back_after_deletion(ann: Browser, front: Front) -> None:
    name = json.loads(ann.get("/account/export").body)["account"]["name"]
    ann.post("/account/close", {"name": name})
    ann.sign_in("ann@example.org")
    assert json.loads(ann.get("/account/export").body)["account"]["name"] != name
