"""The coordinator's pages in a real browser: from a mail address to a lab and a machine.

Everything is real: the server process with its certificate, a mail server, Debian's Chromium with
scripts switched on (so that what the policy forbids would be seen), axe-core for accessibility.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.enrol import EnrolStart, EnrolStartReply
from gpugoblin.wire.signing import public_key_bytes
from tests.helpers.browser import Reader, serious_faults, the_chromium
from tests.helpers.coordinator import write_config
from tests.helpers.coordinator_process import Party, Server
from tests.helpers.mailbox import Mailboxes

# Chromium's own threads and processes are ended by playwright, after the last test of this file.
pytestmark = pytest.mark.timeout(240)

ANN, BOSS = "ann@example.org", "boss@example.org"
OPEN = ("/", "/how", "/questions", "/privacy", "/status", "/labs", "/leaders", "/report", "/signin",
        "/certificate", "/teams")  # fmt: skip
OWN = ("/account", "/account/close", "/machines", "/team", "/credits", "/research",
       "/research/apply")  # fmt: skip
STAFF = ("/operator", "/operator/labs", "/operator/quota", "/operator/machines",
         "/operator/reports", "/operator/record")  # fmt: skip
MAX_PAGE_BYTES = 100 * 1024


@pytest.fixture(scope="module")
def boxes() -> Iterator[Mailboxes]:
    with Mailboxes() as found:
        yield found


@pytest.fixture(scope="module")
def server(boxes: Mailboxes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = write_config(
        tmp_path_factory.mktemp("coordinator"), enrol_interval_s=0.05, mail_host="127.0.0.1",
        mail_port=boxes.port, mail_tls="off", letters_at_once=50,
    )  # fmt: skip
    running = Server(config)
    running.start()
    yield running
    running.end(signal.SIGTERM)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    yield from the_chromium()


def sign_in(reader: Reader, mailbox: str, boxes: Mailboxes) -> None:
    reader.open("/signin")
    reader.page.fill("#mailbox", mailbox)
    reader.page.click("main button")
    reader.page.fill("#code", boxes.code(mailbox))
    reader.page.click("main button")
    assert reader.page.url.endswith("/account")


@pytest.fixture
def reader(chromium: Any, server: Server) -> Iterator[Reader]:
    found = Reader(chromium, server.address)
    yield found
    found.close()


def test_from_a_mail_address_to_a_lab_and_a_machine(
    chromium: Any, server: Server, boxes: Mailboxes
) -> None:
    ann, boss = Reader(chromium, server.address), Reader(chromium, server.address)
    sign_in(ann, ANN, boxes)
    sign_in(boss, BOSS, boxes)
    server.run("operator", "add", BOSS)
    _apply(ann)
    boss.open("/operator")
    boss.page.click("main table a")
    boss.page.fill("#answer", "Welcome.")
    boss.page.click("text=Approve")
    ann.open("/research")
    assert ann.page.inner_text(".quote") == "Welcome."
    ann.page.click("summary")
    ann.page.fill("#name", "proteins")
    ann.page.fill("#key", public_key_bytes(make_key()).hex())
    ann.page.fill("#address", "https://127.0.0.1:8441")
    ann.page.click("details button")
    assert "proteins" in ann.page.inner_text("main table")
    device = Party(server)
    shown = device.post("/v1/enrol/start", EnrolStart(device.public_key), EnrolStartReply)
    ann.open("/machines")
    ann.page.fill("#code", shown.user_code.lower())
    ann.page.fill("#fingerprint", shown.fingerprint)
    ann.page.click("form.row button")
    assert shown.fingerprint in ann.page.inner_text(".notice.good")
    ann.close()
    boss.close()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        (1200, "light"),
        pytest.param(390, "light", marks=pytest.mark.slow),
        pytest.param(1200, "dark", marks=pytest.mark.slow),
    ],
)
def test_pages_hold_for_everybody(
    chromium: Any, server: Server, boxes: Mailboxes, scheme: str, width: int
) -> None:
    """No page is wider than the screen, heavy, or closed to people who do not see it."""
    reader = Reader(
        chromium, server.address, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    sign_in(reader, BOSS, boxes)
    server.run("operator", "add", BOSS)
    for path in OPEN + OWN + STAFF:
        assert reader.open(path) <= MAX_PAGE_BYTES, path
        inside = reader.page.evaluate("() => document.documentElement.scrollWidth")
        assert inside <= width, f"{path} is {inside} wide on a screen of {width}"
    reader.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_pages_are_accessible(chromium: Any, server: Server, boxes: Mailboxes, scheme: str) -> None:
    # axe is put into the page by the test, which our policy rightly forbids to everybody else.
    reader = Reader(chromium, server.address, bypass_csp=True, color_scheme=scheme)
    sign_in(reader, BOSS, boxes)
    server.run("operator", "add", BOSS)
    for path in OPEN + OWN + STAFF:
        reader.open(path)
        assert serious_faults(reader) == [], path
    reader.close()


def test_without_scripts_everything_works(chromium: Any, server: Server, boxes: Mailboxes) -> None:
    reader = Reader(chromium, server.address, java_script_enabled=False)
    reader.page.goto(server.address + "/signin")
    reader.page.fill("#mailbox", ANN)
    reader.page.click("main button")
    reader.page.fill("#code", boxes.code(ANN))
    reader.page.click("main button")
    reader.page.click("button[lang=ja]")
    assert reader.page.get_attribute("html", "lang") == "ja"
    reader.close()


def test_what_was_typed_survives_a_refusal(reader: Reader, boxes: Mailboxes) -> None:
    sign_in(reader, ANN, boxes)
    reader.open("/machines")
    reader.page.fill("#code", "BCDF-GHJK")
    reader.page.fill("#fingerprint", "1234")
    reader.page.click("form.row button")
    assert "BCDF-GHJK" in reader.page.inner_text(".notice.bad")
    assert reader.page.input_value("#code") == "BCDF-GHJK"


def _apply(reader: Reader) -> None:
    reader.open("/research/apply")
    for field, words in {
        "person": "Ann Example",
        "affiliation": "University",
        "project": "We fold proteins of public structures.",
        "purpose": "A network of forty million parameters.",
        "ethics": "Public structures only.",
    }.items():
        reader.page.fill(f"#{field}", words)
    reader.page.click("main button")
    assert reader.page.url.endswith("/research")
