"""The pages of a signed-in person."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.client.certificate_command import certificate
from gpugoblin.wire.codec import encode
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.enrol import EnrolStart
from gpugoblin.wire.messages.receipt import ReceiptBatch
from gpugoblin.wire.signing import public_key_bytes
from server_stub.coordinator.handlers import node
from server_stub.coordinator.ledger import day_of
from server_stub.coordinator.store import Transaction
from server_stub.coordinator.web import paper
from server_stub.coordinator.web.public import iso_day
from server_stub.web import forms
from tests.helpers.coordinator import Desk
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


def credited(front: Front) -> str:
    """A lab for which a machine of ann's did 2.5 units; its id."""

    def work(tx: Transaction) -> str:
        desk = Desk(tx, seed=7)
        desk.house, desk.now_s = front.service.house, front.clock.now_s
        row = tx.row("SELECT name FROM account WHERE mailbox = 'ann@example.org'")
        lab, device = desk.lab(), desk.device(row[0] if row else "")
        batch = ReceiptBatch(lab.name, (lab.receipt(device, device.grant()),))
        desk.ask(node.receipts, lab.key, batch, "192.0.2.9")
        return str(lab.name)

    return front.store.submit(work).result(10)


def test_a_certificate_is_made_drawn_and_checked_by_anyone(ann: Browser, front: Front) -> None:
    lab = credited(front)
    day = iso_day(day_of(front.clock.now_s))
    reply = ann.post("/credits", {"lab": lab, "since": day, "until": day})
    assert reply.status == 303
    place = reply.headers["location"]
    code = place.rpartition("=")[2]
    drawn = ann.get(place)
    assert drawn.body.startswith(b"%PDF-")
    assert drawn.headers["content-type"] == "application/pdf"
    assert code in drawn.headers["content-disposition"]
    assert drawn.headers["cache-control"] == "no-store"
    assert code in ann.get("/credits").text
    stranger = Browser(front)
    found = stranger.post("/certificate", {"code": code.lower()})
    assert found.headers["location"] == f"/certificate?code={code}"
    page = stranger.get(found.headers["location"]).text
    assert "genuine" in page
    assert "2.5 units" in page
    other = Browser(front)
    other.sign_in("bob@example.org")
    assert other.get(place).status == 404


def test_a_certificate_is_kept_and_checked_without_the_server(
    ann: Browser, front: Front, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = credited(front)
    today = iso_day(day_of(front.clock.now_s))
    ann.post("/credits", {"lab": lab, "since": today, "until": today})
    (code,) = re.findall(r"[A-Z]{4}(?:-[A-Z]{4}){3}", ann.get("/credits").text)
    key = front.service.house.public_key.hex()
    for path in (f"/certificate?code={code}&form=json", "/account/export"):
        reply = ann.get(path)
        assert reply.headers["content-type"] == "application/json"
        assert "attachment" in reply.headers["content-disposition"]
        (tmp_path / "kept").write_bytes(reply.body)
        assert certificate(["check", str(tmp_path / "kept"), "--key", key]) == 0
        assert code in capsys.readouterr().out
        (tmp_path / "kept").write_bytes(reply.body.replace(b"2500000", b"2500001"))
        assert certificate(["check", str(tmp_path / "kept"), "--key", key]) == 1
        assert "is wrong" in capsys.readouterr().err


def test_a_code_of_no_certificate_is_said_so(ann: Browser) -> None:
    assert ann.get("/credits/certificate").headers["location"] == "/credits"
    for reply in (
        ann.post("/certificate", {"code": "<b>BCDF"}),
        ann.get("/certificate?code=%3Cb%3EBCDF"),
    ):
        assert reply.status == 404
        assert "no certificate" in reply.text
        assert b"<b>" not in reply.body


def test_days_that_cannot_be_certified_are_shown_again(ann: Browser, front: Front) -> None:
    lab = credited(front)
    reply = ann.post("/credits", {"lab": lab, "since": "2026-01-02", "until": "2026-01-01"})
    assert reply.status == 400
    assert 'value="2026-01-02"' in reply.body.decode()


def test_a_language_without_letters_is_said_before(
    ann: Browser, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    credited(front)
    ann.cookies[forms.LANGUAGE] = "ru"
    monkeypatch.setitem(paper.FONTS, "ru", ())
    assert "нет шрифта" not in ann.get("/credits").text
    monkeypatch.setitem(paper.FONTS, "ru", (Path("/nowhere"),))
    assert "нет шрифта" in ann.get("/credits").text


def test_a_team_is_made_joined_and_left(ann: Browser, front: Front) -> None:
    other = Browser(front)
    other.sign_in("bob@example.org")
    assert ann.post("/team", {"act": "create", "name": "moss"}).status == 303
    credited(front)
    page = ann.get("/team").text
    code = page.partition("can join:")[2].split()[0]
    assert other.post("/team", {"act": "join", "code": code}).status == 303
    ann.post("/account", {"name": "ann", "language": "en", "listed": "1"})
    shown = Browser(front).get("/teams?team=moss").text
    assert "ann" in shown
    assert code not in shown
    assert "2.5" in shown
    assert "moss" in Browser(front).get("/teams").text
    again = ann.post("/team", {"act": "join", "code": code})
    assert again.status == 409
    assert "Leave it before" in again.text
    other.post("/team", {"act": "leave"})
    assert "Join a team" in other.get("/team").text


def test_a_captain_removes_hands_over_and_draws_a_code(ann: Browser, front: Front) -> None:
    bob = Browser(front)
    bob.sign_in("bob@example.org")
    bob.post("/account", {"name": "bob", "language": "en"})
    ann.post("/team", {"act": "create", "name": "moss"})
    assert "You are the captain" in ann.get("/team").text
    code = ann.get("/team").text.partition("can join:")[2].split()[0]
    bob.post("/team", {"act": "join", "code": code})
    assert "You are the captain" not in bob.get("/team").text
    assert bob.post("/team", {"act": "code"}).status == 403
    assert "bob" in ann.get("/team").text
    ann.post("/team", {"act": "remove", "name": "bob"})
    assert "Join a team" in bob.get("/team").text
    assert bob.post("/team", {"act": "join", "code": code}).status == 404
    new = ann.get("/team").text.partition("can join:")[2].split()[0]
    bob.post("/team", {"act": "join", "code": new})
    front.clock.now_s += 1000
    stale = ann.post("/team", {"act": "hand_over", "name": "bob"})
    assert (stale.status, "sign in again" in stale.text.lower()) == (403, True)
    ann.sign_in("ann@example.org")
    assert ann.post("/team", {"act": "hand_over", "name": "bob"}).status == 303
    assert "You are the captain" in bob.get("/team").text
    assert "You are the captain" not in ann.get("/team").text
    ann.post("/team", {"act": "code"})
    assert new in bob.get("/team").text
    bob.post("/team", {"act": "code"})
    assert new not in bob.get("/team").text


def test_a_team_that_is_none_is_said_so(ann: Browser) -> None:
    for name in ("fern", "%00", "%3Cb%3E", "x" * 2000):
        reply = ann.get(f"/teams?team={name}")
        assert reply.status == 404
        assert b"<b>" not in reply.body
    assert ann.post("/team", {"act": "join", "code": "BCDF"}).status == 404
