"""What every request of a browser passes."""

from __future__ import annotations

import re

import pytest

from server_stub.coordinator.web.languages import LANGUAGES
from server_stub.coordinator.web.site import PAGES
from server_stub.web import forms
from tests.helpers.coordinator_front import Browser, Front

OPEN = [page.path for page in PAGES if page.who == "anyone" and page.path != "/signin/code"]
CLOSED = [page.path for page in PAGES if page.who == "person"]
STAFF = [page.path for page in PAGES if page.who == "operator" and "{" not in page.path]
APPLICATION = {
    "person": "Ann Example",
    "affiliation": "University",
    "project": "We fold proteins of public structures.",
    "purpose": "A network of forty million parameters.",
    "ethics": "Public structures only.",
}


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("path", OPEN)
def test_open_pages_answer_in_every_language(front: Front, path: str, language: str) -> None:
    browser = Browser(front, headers={"Accept-Language": language})
    reply = browser.get(path)
    assert reply.status == 200
    assert f'<html lang="{language}">' in reply.body.decode()


@pytest.mark.parametrize("path", CLOSED + STAFF)
def test_strangers_are_sent_to_sign_in(front: Front, path: str) -> None:
    reply = Browser(front).get(path)
    assert (reply.status, reply.headers["location"]) == (303, "/signin")


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("path", CLOSED)
def test_own_pages_answer_in_every_language(ann: Browser, path: str, language: str) -> None:
    ann.cookies[forms.LANGUAGE] = language
    assert ann.get(path).status in (200, 303)


@pytest.mark.parametrize("path", STAFF)
def test_operators_pages_are_not_there_for_others(ann: Browser, path: str) -> None:
    reply = ann.get(path)
    assert reply.status == 404


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("path", STAFF)
def test_operators_pages_answer_in_every_language(boss: Browser, path: str, language: str) -> None:
    boss.cookies[forms.LANGUAGE] = language
    assert boss.get(path).status == 200


def test_every_page_has_the_headers_of_all(ann: Browser) -> None:
    ann.headers["Accept"] = "text/html"
    for path in [*OPEN, *CLOSED, "/nothing-there"]:
        reply = ann.get(path)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "script" not in policy, path
        assert reply.headers["cache-control"] == "no-store", path


def test_pages_have_neither_scripts_nor_styles_inside(boss: Browser) -> None:
    for path in OPEN + CLOSED + STAFF:
        text = boss.get(path).body.decode()
        assert not re.search(r"<script|<style|\sstyle=|\son[a-z]+=|javascript:", text), path


def test_pages_are_small(boss: Browser) -> None:
    for path in OPEN + CLOSED + STAFF:
        assert len(boss.get(path).body) < 60_000, path


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 400),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_forms_of_other_sites_do_nothing(ann: Browser, changed: dict[str, str], code: int) -> None:
    fields = {"name": "changed", "language": "fr"}
    assert ann.post("/account", fields, **changed).status == code
    assert "changed" not in ann.get("/account").text


def test_a_form_without_our_token_does_nothing(ann: Browser) -> None:
    reply = ann.post("/account", {"token": "0" * 43, "name": "changed"})
    assert reply.status == 403
    assert "changed" not in ann.get("/").text


def test_a_form_of_before_the_sign_in_is_void(front: Front) -> None:
    browser = Browser(front)
    page = browser.get("/report").body.decode()
    token = re.findall(r'name="token" value="([^"]*)"', page)[0]
    browser.sign_in("ann@example.org")
    reply = browser.post("/report", {"token": token, "report": "x" * 40})
    assert reply.status == 403


def test_a_form_too_large_is_refused(ann: Browser) -> None:
    reply = ann.post("/report", {"report": "x" * forms.MAX_FORM_BYTES})
    assert reply.status == 413


def test_what_was_typed_is_shown_again(ann: Browser) -> None:
    reply = ann.post("/research/apply", {**APPLICATION, "project": "too short"})
    assert reply.status == 400
    assert "forty million" in reply.text
    assert "at least 20" in reply.text


def test_what_people_write_is_text_and_never_markup(ann: Browser, boss: Browser) -> None:
    evil = '<img src=x onerror=alert(1)> & "quotes" in the public words'
    assert ann.post("/research/apply", {**APPLICATION, "project": evil}).status == 303
    for browser, path in ((ann, "/research"), (boss, "/operator")):
        assert "<img src=x" not in browser.get(path).body.decode()
    link = re.findall(r"/operator/applications/[a-z0-9_]+", boss.get("/operator").body.decode())[0]
    page = boss.get(link)
    assert "<img src=x" not in page.body.decode()
    assert evil in page.text


def test_the_language_is_chosen_once(front: Front) -> None:
    browser = Browser(front)
    reply = browser._ask("GET", "/", b"", {})
    token = re.findall(r'name="token" value="([^"]*)"', reply.body.decode())[0]
    body = f"token={token}&language=ja&place=/how".encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://test"}
    reply = browser._ask("POST", "/language", body, headers)
    assert (reply.status, reply.headers["location"]) == (303, "/how")
    assert '<html lang="ja">' in browser.get("/how").body.decode()


@pytest.mark.parametrize("place", ["https://evil.example", "//evil.example", "/\\evil.example"])
def test_the_language_switch_leads_nowhere_else(front: Front, place: str) -> None:
    browser = Browser(front)
    reply = browser.get("/")
    token = re.findall(r'name="token" value="([^"]*)"', reply.body.decode())[0]
    body = f"token={token}&language=fr&place={place}".encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://test"}
    assert browser._ask("POST", "/language", body, headers).headers["location"] == "/"


def test_cookies_are_for_this_host_over_tls_alone(front: Front) -> None:
    browser = Browser(front)
    replies = [browser.get("/"), browser.sign_in("ann@example.org")]
    cookies = [cookie for reply in replies for cookie in reply.cookies]
    assert cookies
    for cookie in cookies:
        assert cookie.startswith("__Host-")
        for part in ("Secure", "HttpOnly", "Path=/", "SameSite=lax"):
            assert part.lower() in cookie.lower(), cookie


def test_too_many_requests_of_one_network(front: Front) -> None:
    small = Front(front.store, chosen={"requests_burst": 5, "requests_per_s": 0.01})
    browser = Browser(small, headers={"Accept": "text/html"})
    statuses = [browser.get("/how").status for _ in range(8)]
    assert statuses[-1] == 429
    assert statuses[0] == 200


def test_defects_tell_nothing(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    from server_stub.coordinator.handlers import applications

    def broken(*arguments: object) -> object:
        raise RuntimeError("secret of ours")

    monkeypatch.setattr(applications, "labs", broken)
    reply = Browser(front).get("/labs")
    assert reply.status == 500
    assert "secret" not in reply.text


def test_static_files_have_no_way_out(front: Front) -> None:
    assert front.send("GET", "/static/site.css").status == 200
    assert front.send("GET", "/static/..%2f..%2fstore.py").status == 404
    assert front.send("GET", "/static/nothing.css").status == 404


def test_a_host_header_of_nonsense_is_no_part_of_the_path(ann: Browser) -> None:
    for host in ("[", "x/?y", "x#", 'test/">'):
        ann.headers["Host"] = host
        page = ann.get("/account")
        assert page.status == 200, host
        assert 'name="place" value="/account"' in page.body.decode()
        ann.headers["Accept"] = "text/html"
        assert ann.get("/nothing-there").status == 404


def test_a_malformed_origin_is_foreign(ann: Browser) -> None:
    assert ann.post("/account", {"name": "ann"}, Origin="http://[").status == 403


def test_no_character_that_databases_refuse_comes_through(boss: Browser, ann: Browser) -> None:
    assert ann.post("/report", {"lab": "a\0b", "report": "x" * 40}).status == 400
    assert boss.get("/operator/applications/a\0b").status == 404


def test_files_are_those_that_there_are(front: Front) -> None:
    browser = Browser(front)
    assert browser.get("/static/site.css").headers["cache-control"] == "public, max-age=3600"
    for name in ("\0", "x" * 5000, "..", "site.css\0", ""):
        assert browser.get(f"/static/{name}").status == 404, name


def test_files_are_limited_in_rate_like_pages(front: Front) -> None:
    narrow = Front(front.store, front.clock, {"requests_burst": 1, "requests_per_s": 0.01})
    browser = Browser(narrow)
    assert [browser.get("/static/site.css").status for _ in range(2)] == [200, 429]


def test_forms_of_one_account_have_a_rate_but_it_can_sign_out(ann: Browser) -> None:
    replies = [ann.post("/account", {"name": "ann"}).status for _ in range(121)]
    assert replies == [303] * 120 + [429]
    # The form to sign out stands on another page; its token is the same.
    token = re.findall(r'name="token" value="([^"]*)"', ann.get("/account").body.decode())[0]
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://test"}
    assert ann._ask("POST", "/signout", f"token={token}".encode(), headers).status == 303
    assert ann.get("/account").headers["location"] == "/signin"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE account SET closed_s = 1.0 WHERE mailbox = 'ann@example.org'",
        "DELETE FROM session",
        "UPDATE account SET name = 'other' WHERE mailbox = 'ann@example.org'",
    ],
)
def test_what_changed_since_the_session_was_read_stops_the_act(
    front: Front, ann: Browser, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    parse = forms.parse_form

    def meanwhile(body: bytes) -> dict[str, str]:
        front.store.submit(lambda tx: tx.execute(change)).result(10)
        return parse(body)

    monkeypatch.setattr(forms, "parse_form", meanwhile)
    assert ann.post("/research/apply", APPLICATION).status == 403
    assert front.store.submit(lambda tx: tx.rows("SELECT 1 FROM application")).result(10) == []


def test_an_operator_who_was_demoted_meanwhile_revokes_nothing(
    front: Front, boss: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = forms.parse_form

    def meanwhile(body: bytes) -> dict[str, str]:
        demote = "UPDATE account SET role = 'contributor'"
        front.store.submit(lambda tx: tx.execute(demote)).result(10)
        return parse(body)

    monkeypatch.setattr(forms, "parse_form", meanwhile)
    assert boss.post("/operator/machines", {"device": "device_x"}).status == 403


@pytest.mark.parametrize(
    ("path", "fields"),
    [("/operator/applications/{}", {"act": "approve"}), ("/machines", {"act": "revoke"})],
)
def test_what_cannot_be_undone_asks_for_a_new_sign_in(
    front: Front, boss: Browser, path: str, fields: dict[str, str]
) -> None:
    ann = Browser(front)
    ann.sign_in("ann@example.org")
    ann.post("/research/apply", APPLICATION)
    row = front.store.submit(lambda tx: tx.row("SELECT application FROM application")).result(10)
    front.clock.now_s += 901.0
    reply = boss.post(path.format(*row), {"device": "device_x", **fields})
    assert reply.status == 403
    assert "Sign in again" in reply.text
    states = front.store.submit(lambda tx: tx.rows("SELECT state FROM application")).result(10)
    assert states == [("waiting",)]
