"""Applying, the review, and a lab node that comes of it."""

from __future__ import annotations

import re

from gpugoblin.wire.keys import make_key
from gpugoblin.wire.signing import public_key_bytes
from tests.helpers.coordinator_front import Browser, Front
from tests.unit.server_stub.coordinator.web.test_site import APPLICATION


def applied(ann: Browser) -> str:
    assert ann.post("/research/apply", APPLICATION).status == 303
    page = ann.get("/research").body.decode()
    return re.findall(r'name="application" value="([^"]*)"', page)[0]


def test_from_application_to_lab(ann: Browser, boss: Browser, front: Front) -> None:
    application = applied(ann)
    page = f"/operator/applications/{application}"
    assert "forty million" in boss.get(page).text
    assert boss.post(page, {"act": "approve", "answer": "Welcome."}).status == 303
    assert "Welcome." in ann.get("/research").text
    given = {
        "act": "register",
        "application": application,
        "name": "proteins",
        "key": public_key_bytes(make_key()).hex(),
        "address": "https://lab.example.org:8441",
        "certificate": "",
    }
    assert ann.post("/research", given).status == 303
    assert "proteins" in ann.get("/research").text
    front.clock.now_s += 10
    assert "We fold proteins" in Browser(front).get("/labs").text


def test_letters_tell_operators_and_applicants(ann: Browser, boss: Browser, front: Front) -> None:
    application = applied(ann)
    boss.post(f"/operator/applications/{application}", {"act": "decline", "answer": "Not yet."})
    letters = front.store.submit(
        lambda tx: tx.rows("SELECT mailbox, words_letter FROM mail ORDER BY number")
    ).result(10)
    told = {mailbox: words for mailbox, words in letters[2:]}
    assert "Ann Example" in told["boss@example.org"]
    assert "Not yet." in told["ann@example.org"]


def test_a_refused_lab_keeps_what_was_typed(ann: Browser, boss: Browser) -> None:
    application = applied(ann)
    boss.post(f"/operator/applications/{application}", {"act": "approve"})
    given = {"act": "register", "application": application, "name": "proteins", "key": "beef"}
    reply = ann.post("/research", given)
    assert reply.status == 409
    assert "beef" in reply.body.decode()


def test_no_lab_without_approval(ann: Browser) -> None:
    application = applied(ann)
    given = {
        "act": "register",
        "application": application,
        "name": "proteins",
        "key": "0" * 64,
        "address": "https://lab.example.org:1",
    }
    assert ann.post("/research", given).status == 409


def test_withdrawing(ann: Browser) -> None:
    application = applied(ann)
    ann.post("/research", {"act": "withdraw", "application": application})
    assert "withdrawn" in ann.get("/research").text
