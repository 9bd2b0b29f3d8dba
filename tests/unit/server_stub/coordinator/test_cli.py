"""The operator's commands, as one types them."""

from __future__ import annotations

import json
import random
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.wire.messages.enrol import EnrolStart
from gpugoblin.wire.signing import public_key_bytes
from server_stub.coordinator import databases
from server_stub.coordinator.cli import main
from server_stub.coordinator.databases import sqlite_file
from server_stub.coordinator.handlers import enrol
from server_stub.coordinator.house import Caller
from server_stub.coordinator.schema import VERSION
from server_stub.coordinator.settings import load_settings
from server_stub.coordinator.state import Files, open_house
from server_stub.coordinator.store import Transaction, transact
from tests.helpers.coordinator import write_config


class Operator:
    """Types commands and reads what they print."""

    def __init__(self, config: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.config = config
        self.capture = capture

    def __call__(self, *words: str) -> Any:
        assert main([*words, "--config", str(self.config), "--json"]) == 0
        return json.loads(self.capture.readouterr().out)

    def refused(self, *words: str) -> str:
        assert main([*words, "--config", str(self.config)]) == 1
        printed = self.capture.readouterr()
        assert printed.out == ""
        return printed.err


@pytest.fixture
def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(write_config(tmp_path), capsys)


def waiting_code(config: Path) -> str:
    """A device that has just asked for a code."""
    house = open_house(load_settings(config))
    key = public_key_bytes(Ed25519PrivateKey.generate())

    def start(tx: Transaction) -> str:
        caller = Caller(key, b"", 0.0, "192.0.2.1")
        reply = enrol.start(house, tx, time.time(), random.SystemRandom(), caller, EnrolStart(key))
        return reply.user_code

    return transact(Files(house.settings.state_dir).database, start)


def test_from_nothing_to_an_enrolled_device(operator: Operator) -> None:
    assert operator("account", "add", "ann")["name"] == "ann"
    approved = operator("approve", waiting_code(operator.config), "--account", "ann")
    device = approved["device"]
    assert re.fullmatch(r"([0-9a-f]{4}-){3}[0-9a-f]{4}", approved["fingerprint"])
    assert operator("deny", waiting_code(operator.config), "--account", "ann")["device"] == "denied"
    (row,) = operator("account", "list")
    assert (row["name"], row["devices"]) == ("ann", 1)
    lab = operator("lab", "add", "lab-a", "--key", "ab" * 32, "--address", "https://lab:8443")
    assert lab["coordinator_key"] == operator("status")["coordinator_key"]
    assert [row["name"] for row in operator("lab", "list")] == ["lab-a"]
    assert operator("revoke", "device", device) == {"device": device, "grants_revoked": 0}
    assert operator("account", "list")[0]["devices"] == 0
    for group in ("owner", "device", "lab", "day"):
        assert operator("credits", "--by", group) == []
    assert operator("check") == {"ledger_faults": 0, "audit_broken_at": 0}
    assert main(["check", "--config", str(operator.config)]) == 0
    assert re.search(r"^audit record +whole$", operator.capture.readouterr().out, re.M)
    copy = operator.config.parent / "copy"
    assert operator("backup", str(copy)) == {"backup": str(copy)}
    assert operator("migrate") == {"schema_before": VERSION, "schema": VERSION}
    before = operator("account", "list")
    sqlite_file(load_settings(operator.config)).rename(operator.config.parent / "lost")
    restored = operator("restore", str(copy))
    assert restored["account"] == len(before)
    assert operator("account", "list") == before


def test_init_prints_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "deep" / "coordinator.toml"
    words = ["init", "--config", str(config), "--port", "0", "--hostname", "a.example", "--json"]
    assert main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["key"] == open_house(load_settings(config)).public_key.hex()
    assert load_settings(config).hostnames == ("a.example",)


def test_people_get_lines(operator: Operator) -> None:
    assert main(["account", "add", "ann", "--config", str(operator.config)]) == 0
    assert operator.capture.readouterr().out.splitlines()[1] == "name     ann"
    assert main(["account", "list", "--config", str(operator.config)]) == 0
    title, row = operator.capture.readouterr().out.splitlines()
    assert title.split()[:3] == ["account", "name", "created"]
    assert re.search(r"  ann   \d{4}-\d\d-\d\d \d\d:\d\d UTC", row)
    assert main(["lab", "list", "--config", str(operator.config)]) == 0
    assert operator.capture.readouterr().out == "none\n"


def test_another_device_than_the_one_compared_is_refused(operator: Operator) -> None:
    operator("account", "add", "ann")
    code = waiting_code(operator.config)
    words = ("approve", code, "--account", "ann", "--fingerprint")
    printed = operator.refused(*words, "0000-0000-0000-0000")
    assert "[fingerprint_differs]" in printed
    assert operator("account", "list")[0]["devices"] == 0
    shown = re.search(r"([0-9a-f]{4}-){3}[0-9a-f]{4}", printed)
    assert shown is not None
    typed = shown[0].upper().replace("-", " ")
    assert operator(*words, typed)["fingerprint"] == shown[0]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("account", "add", "Ann Example"), "coordinator_name_malformed"),
        (("approve", "BBBB-BBBB", "--account", "ann"), "account_unknown"),
        (("revoke", "grant", "grant_a"), "coordinator_subject_unknown"),
        (("revoke", "device", "device_a"), "coordinator_subject_unknown"),
        (("init",), "coordinator_exists"),
        (("lab", "add", "x", "--key", "1", "--address", "y"), "coordinator_lab_malformed"),
    ],
)
def test_refusals_say_what_and_what_next(
    operator: Operator, words: tuple[str, ...], code: str
) -> None:
    printed = operator.refused(*words)
    assert printed.startswith("error: ")
    assert f"[{code}]" in printed
    assert len(printed.splitlines()) == 2


def test_wrong_codes_count_across_commands(operator: Operator) -> None:
    operator("account", "add", "ann")
    for _ in range(5):
        assert "code_unknown" in operator.refused("approve", "BBBB-BBBB", "--account", "ann")
    code = waiting_code(operator.config)
    assert "code_tries_exhausted" in operator.refused("approve", code, "--account", "ann")


def test_check_finds_a_broken_record(operator: Operator) -> None:
    operator("account", "add", "ann")

    def tamper(tx: Transaction) -> None:
        tx.execute("DROP TRIGGER audit_keeps_update")
        tx.execute("UPDATE audit SET subject = 'account_b'")

    settings = load_settings(operator.config)
    transact(Files(settings.state_dir).database, tamper)
    assert main(["check", "--config", str(operator.config), "--json"]) == 1
    assert json.loads(operator.capture.readouterr().out)["audit_broken_at"] == 1
    assert main(["check", "--config", str(operator.config)]) == 1
    assert re.search(r"^audit record +broken at entry 1$", operator.capture.readouterr().out, re.M)


def test_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--config", str(tmp_path / "none")]) == 1
    assert "settings_unreadable" in capsys.readouterr().err


def test_the_operators_pages_are_given_and_taken(operator: Operator) -> None:
    operator("account", "add", "ann")
    set_mailbox = "UPDATE account SET mailbox = 'ann@example.org'"
    databases.transact(load_settings(operator.config), lambda tx: tx.execute(set_mailbox))
    assert operator("operator", "add", "ann@example.org")["role"] == "operator"
    assert operator("operator", "remove", "ann@example.org")["role"] == "contributor"
    again = ["operator", "remove", "ann@example.org", "--config", str(operator.config)]
    assert main(again) == 1
    assert "[coordinator_subject_unknown]" in operator.capture.readouterr().err


def test_init_takes_a_directory_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, state = tmp_path / "etc" / "c.toml", tmp_path / "lib"
    words = ["init", "--config", str(config), "--state-dir", str(state), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["state_dir"] == str(state)
    assert (state / "ticket.key").exists()


def test_the_hosted_lab_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], operator: Operator
) -> None:
    assert operator("hosted")["state"].startswith("off")
    with operator.config.open("a", encoding="utf-8") as file:
        file.write('hosted_lab = "ours"\n')
    words = ["--config", str(operator.config), "--json"]
    assert main(["hosted", *words]) == 1
    assert json.loads(capsys.readouterr().out)["state"].startswith("not registered")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        operator("lab", "add", "ours", "--key", "ab" * 32, "--address", address)
        shown = operator("hosted")
        assert (shown["state"], shown["seen"], shown["node"]) == ("registered", "reached", address)
    assert main(["hosted", *words]) == 1
    assert json.loads(capsys.readouterr().out)["seen"] == "refused"


def test_an_account_is_signed_out(operator: Operator) -> None:
    operator("account", "add", "ann")
    assert operator("account", "signout", "ann") == {"name": "ann", "sessions_ended": 0}
    assert "coordinator_subject_unknown" in operator.refused("account", "signout", "bob")
