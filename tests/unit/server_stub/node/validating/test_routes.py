"""The door of validators: who has no known key reads nothing, and who has one its own items."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.signing import public_key_bytes, sign_request
from server_stub.node.state import validators
from server_stub.node.state.validators import Validator
from server_stub.node.validating.machine import NodeDoor
from server_stub.node.validating.words import ANSWER_PATH, BLOBS_PATH, TAKE_PATH, Take
from tests.helpers.lab import Lab, grid_settings, refused
from tests.helpers.node import LabNode

__all__: list[str] = []


class Case:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        service = lab.node.service
        assert service.tls is not None
        self.key = Ed25519PrivateKey.generate()
        self.address, self.certificate = f"https://127.0.0.1:{service.port}", service.tls.sha256
        self.known(Validator("one", public_key_bytes(self.key).hex()))

    def known(self, validator: Validator) -> None:
        handle = self.lab.node.node.handle
        self.lab.node.call(handle(lambda step: validators.add(step.tx, validator)))

    def call(self, method: str, path: str, body: bytes = b"", **who: Ed25519PrivateKey) -> bytes:
        door = NodeDoor(self.address, self.certificate, who.get("key", self.key))
        try:
            return door.call(method, path, body, 1 << 20)
        finally:
            door.close()


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with LabNode(tmp_path, **grid_settings()) as node, Lab(node, tmp_path) as lab:
        node.node.desk._hold_s = 0.05
        yield Case(lab)


def take(**changed: str) -> bytes:
    given = {"version": version("gpugoblin"), "catalog_hash": catalog_hash(), **changed}
    return msgspec.json.encode(Take(**given))  # type: ignore[arg-type]  # names of its fields


def test_there_is_nothing_to_do_and_it_is_here(case: Case) -> None:
    assert case.call("POST", TAKE_PATH, take()) == b""
    assert [one.name for one in case.lab.node.node.desk.present()] == ["one"]


def test_who_is_not_known_is_refused_everywhere(case: Case) -> None:
    other = Ed25519PrivateKey.generate()
    for method, path, body in (
        ("POST", TAKE_PATH, take()), ("POST", ANSWER_PATH, b"x"), ("GET", f"{BLOBS_PATH}/x", b""),
    ):  # fmt: skip
        refused_code(case, "validator_unknown", method, path, body, key=other)


def refused_code(
    case: Case, code: str, method: str, path: str, body: bytes, **who: Ed25519PrivateKey
) -> None:
    refused(code, lambda: case.call(method, path, body, **who))


def test_a_blob_of_no_item_of_its_own_stays_here(case: Case) -> None:
    blob = case.lab.node.node.blobs.put(b"numbers")
    for name in (str(blob), "x"):
        refused_code(case, "blob_not_leased", "GET", f"{BLOBS_PATH}/{name}?offset=0", b"")


def test_another_version_or_nonsense_is_refused(case: Case) -> None:
    refused_code(case, "validator_differs", "POST", TAKE_PATH, take(version="0.1"))
    refused_code(case, "validator_differs", "POST", TAKE_PATH, take(catalog_hash="f" * 64))
    refused_code(case, "parameter_invalid", "POST", TAKE_PATH, b"{}")
    refused_code(case, "parameter_invalid", "POST", ANSWER_PATH, b"\xc1")


def test_who_was_caught_is_not_asked_until_the_administrator_says_so(case: Case) -> None:
    case.lab.node.call(case.lab.node.node.handle(lambda step: validators.caught(step, "one")))
    refused_code(case, "validator_caught", "POST", TAKE_PATH, take())
    case.known(Validator("one", public_key_bytes(case.key).hex(), ours=True))
    assert case.call("POST", TAKE_PATH, take()) == b""


def test_a_question_that_was_heard_is_not_heard_again(case: Case) -> None:
    body = take()
    now_s = case.lab.node.node.clock.wall_s()
    headers = sign_request(case.key, "POST", TAKE_PATH, body, now_s)
    found = []
    with requests.Session() as session:
        session.mount("https://", PinnedAdapter(case.certificate))
        session.verify, session.trust_env = False, False
        for _ in range(2):
            reply = session.post(case.address + TAKE_PATH, data=body, headers=headers, timeout=10)
            found.append(reply.status_code)
    assert found == [204, 401]
