"""The operator's pages."""

from __future__ import annotations

import re

from server_stub.coordinator.handlers import operator
from server_stub.coordinator.handlers.operator import NewLab
from tests.helpers.coordinator_front import Browser, Front


def lab(front: Front) -> str:
    new = NewLab("lab-a", "ab" * 32, "https://lab.example.org:8441")
    return front.store.submit(
        lambda tx: operator.add_lab(tx, front.clock.now_s, front.service.rng, new)
    ).result(10)


def test_a_lab_is_suspended_and_resumed(boss: Browser, front: Front) -> None:
    number = lab(front)
    assert boss.post("/operator/labs", {"act": "suspend", "lab": number}).status == 303
    assert "suspended" in boss.get("/operator/labs").text
    boss.post("/operator/labs", {"act": "resume", "lab": number})
    assert "suspended" not in boss.get("/operator/labs").text


def test_suspending_asks_for_a_fresh_sign_in(boss: Browser, front: Front) -> None:
    number = lab(front)
    front.clock.now_s += 3600
    assert boss.post("/operator/labs", {"act": "suspend", "lab": number}).status == 403


def test_a_report_is_read_and_closed(boss: Browser, front: Front) -> None:
    number = lab(front)
    words = "It computes something else than it says."
    reply = Browser(front).post("/report", {"lab": number, "report": words})
    assert reply.headers["location"] == "/report?done=1"
    page = boss.get("/operator/reports")
    assert words in page.text
    report = page.body.decode().partition('name="report" value="')[2].partition('"')[0]
    boss.post("/operator/reports", {"report": report})
    assert words not in boss.get("/operator/reports").text


def test_an_unknown_machine_is_said_so(boss: Browser) -> None:
    reply = boss.post("/operator/machines", {"device": "device_nothing"})
    assert reply.status == 404
    assert "device_nothing" in reply.text


def test_the_record_shows_who_did_what(boss: Browser, front: Front) -> None:
    number = lab(front)
    boss.post("/operator/labs", {"act": "suspend", "lab": number})
    page = boss.get("/operator/record").text
    assert "lab_suspend" in page
    assert number in page
    assert "is whole" in page


def test_a_record_changed_around_the_triggers_is_shown(boss: Browser, front: Front) -> None:
    def change(tx: object) -> None:
        tx.execute("DROP TRIGGER audit_keeps_update")  # type: ignore[attr-defined]
        tx.execute("UPDATE audit SET actor = 'nobody' WHERE number = 1")  # type: ignore[attr-defined]

    front.store.submit(change).result(10)
    assert "changed by other means at line 1" in boss.get("/operator/record").text


def test_a_quota_is_changed_and_what_was_refused_is_shown_again(
    boss: Browser, front: Front
) -> None:
    number = lab(front)
    given = {"lab": number, "weight": "2.5", "max_cards": "7"}
    assert boss.post("/operator/quota", given).status == 303
    page = boss.get("/operator/quota").body.decode()
    assert 'value="2.5"' in page
    assert 'value="7"' in page
    assert f"{number} weight=2.5 cards=7" in boss.get("/operator/record").text
    refused = boss.post("/operator/quota", {**given, "weight": "5000"})
    assert refused.status == 400
    assert 'value="5000"' in refused.body.decode()
    assert "weight is malformed" in refused.text
    front.clock.now_s += 3600
    assert boss.post("/operator/quota", given).status == 403


def test_who_is_no_operator_any_more_sees_and_does_nothing(boss: Browser, front: Front) -> None:
    lab(front)
    assert boss.get("/operator/quota").status == 200
    front.store.submit(
        lambda tx: operator.remove_operator(tx, front.clock.now_s, "boss@example.org")
    ).result(10)
    assert boss.get("/operator/quota").status == 404


def test_an_operator_signs_somebody_out_everywhere(
    boss: Browser, ann: Browser, front: Front
) -> None:
    name = re.findall(r'name="name" type="text" value="([^"]*)"', ann.get("/account").body.decode())
    reply = boss.post("/operator/machines", {"act": "sessions", "name": name[0]})
    assert reply.headers["location"] == "/operator/machines?ended=1"
    assert "signed out of every browser" in boss.get("/operator/machines?ended=1").text
    assert ann.get("/account").status == 303
    assert "sessions_end" in boss.get("/operator/record").text
    assert boss.post("/operator/machines", {"act": "sessions", "name": "nobody"}).status == 404
    front.clock.now_s += 1000
    assert boss.post("/operator/machines", {"act": "sessions", "name": name[0]}).status == 403
