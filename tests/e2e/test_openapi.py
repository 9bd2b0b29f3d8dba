"""A real coordinator keeps to its OpenAPI description, whatever is sent to it.

schemathesis makes the requests out of the description: such that keep to it and such that do not.
They are signed by an enrolled device, by a registered lab, by a device that waits, or not at all.
"""

from __future__ import annotations

import base64
import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpugoblin.wire.codec import message_type
from gpugoblin.wire.messages.enrol import EnrolStart, EnrolStartReply
from gpugoblin.wire.signing import sign_request
from server_stub.coordinator import openapi
from server_stub.coordinator.gate import status_of_code
from server_stub.coordinator.openapi import OPERATIONS, Operation
from tests.helpers.coordinator import write_config
from tests.helpers.coordinator_process import Device, Lab, Party, Server

schemathesis: Any = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed (requirements/openapi.txt)"
)

jsonschema_rs: Any = pytest.importorskip("jsonschema_rs", reason="comes with schemathesis")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLES = 60
DOCUMENT = json.loads(openapi.page())
WHO = ("device", "lab", "newcomer", "nobody")


@dataclass
class World:
    """A coordinator with somebody to speak for, and what was answered."""

    server: Server
    parties: dict[str, Party]
    known: dict[str, str]
    schema: Any
    seen: dict[tuple[str, int], int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    config = write_config(
        tmp_path_factory.mktemp("coordinator"), tls="off", requests_per_s=1e6,
        requests_burst=10**6, key_requests_per_s=1e6, key_requests_burst=10**6,
        mail_host="127.0.0.1", mail_port=9, mail_tls="off", letters_at_once=10**6,
    )  # fmt: skip
    server = Server(config)
    server.start()
    try:
        device, lab = Device(server), Lab(server)
        server.run("account", "add", "ann")
        device.enrol("ann")
        lab.register("lab-a")
        newcomer = Party(server)
        started = newcomer.post("/v1/enrol/start", EnrolStart(newcomer.public_key), EnrolStartReply)
        parties = {"device": device, "lab": lab, "newcomer": newcomer}
        known = {
            "lab": str(lab.name), "enrolment": started.enrolment, "mailbox": "ann@example.org",
        }  # fmt: skip
        schema = schemathesis.openapi.from_dict(DOCUMENT)
        yield World(server, parties, known, schema)
        assert server.end(signal.SIGTERM) == 0
    finally:
        if server.process is not None:
            server.end(signal.SIGKILL)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.trust_env = False
        yield made


def send(
    world: World, session: requests.Session, case: Any, who: str, is_known: bool
) -> requests.Response:
    """Sends a case as that party; `is_known`: ids that somebody has take the place of made ones."""
    if is_known:
        known = dict(world.known)
        if who in world.parties:
            known["public_key"] = base64.b64encode(world.parties[who].public_key).decode()
        for place in (case.body, case.query):
            if isinstance(place, dict):
                place.update({name: id_ for name, id_ in known.items() if name in place})
    sent = case.as_transport_kwargs(base_url=world.server.address)
    request = session.prepare_request(requests.Request(**_plain(sent)))
    if who in world.parties:
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        parts = urlsplit(str(request.url))
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        key = world.parties[who].key
        request.headers.update(
            sign_request(key, str(request.method), target, bytes(body), time.time())
        )
    return session.send(request, timeout=20)


def _plain(sent: dict[str, Any]) -> dict[str, Any]:
    known = ("method", "url", "headers", "cookies", "params", "data", "json", "files")
    return {name: value for name, value in sent.items() if name in known}


def may_be_refused(one: Operation, body: bytes | str) -> set[bool]:
    """What the description says of a body: whether it must, must not or may be refused.

    JSON Schema takes `5.0` for an integer, and we do not (decision 011): a body that is admitted
    only because of that may be refused.
    """
    strict = _is_admitted(one, body, float)
    loose = _is_admitted(one, body, lambda text: float(text) + float(text).is_integer() / 2)
    return {not strict} if strict == loose else {True, False}


def _is_admitted(one: Operation, body: bytes | str, number: Callable[[str], float]) -> bool:
    try:
        tree = json.loads(body, parse_float=number, parse_constant=lambda name: {})
    except (ValueError, RecursionError):
        return False
    assert one.message is not None
    reference = f"#/components/schemas/{one.message.__name__}"
    described = {"$ref": reference, "components": DOCUMENT["components"]}
    return bool(jsonschema_rs.Draft202012Validator(described).is_valid(tree))


def judge(world: World, one: Operation, case: Any, response: requests.Response) -> None:
    """No 5xx; a status, a form and a code that are described."""
    status = response.status_code
    world.seen[one.path, status] = world.seen.get((one.path, status), 0) + 1
    case.validate_response(
        response,
        checks=[
            schemathesis.checks.not_a_server_error,
            schemathesis.checks.status_code_conformance,
            schemathesis.checks.content_type_conformance,
            schemathesis.checks.response_schema_conformance,
            schemathesis.checks.response_headers_conformance,
        ],
    )
    if status != 200:
        code = response.json()["code"]
        assert code in one.codes, (one.path, code)
        assert status_of_code(code) == status


@pytest.mark.parametrize("one", OPERATIONS, ids=lambda one: one.path)
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_requests_are_answered_as_described(
    world: World, session: requests.Session, one: Operation, mode: str
) -> None:
    operation = world.schema[one.path][one.method.upper()]
    has_input = one.message is not None or one.query
    if mode == "negative" and not has_input:
        return  # there is nothing in it that could be wrong
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases, who=st.sampled_from(WHO), is_known=st.booleans())
    def run(case: Any, who: str, is_known: bool) -> None:
        response = send(world, session, case, who, is_known)
        judge(world, one, case, response)
        if one.message is not None and who != "nobody":
            sent = response.request.body or b""
            if len(sent) > message_type(one.message).max_bytes:
                assert response.status_code == 413
                return
            is_refused = response.status_code == 400 and (
                response.json()["code"] == "message_malformed"
            )
            assert is_refused in may_be_refused(one, sent), (sent, response.text)

    run()


def test_another_method_is_said_to_be_none(world: World, session: requests.Session) -> None:
    for one in OPERATIONS:
        for method in ("PUT", "DELETE", "PATCH", "GET" if one.method == "post" else "POST"):
            reply = session.request(method, world.server.address + one.path, timeout=20)
            assert reply.status_code == 405, (method, one.path)
            assert one.method.upper() in reply.headers["Allow"]
            assert reply.json()["code"] == "coordinator_route_unknown"


def test_the_run_went_deep(world: World) -> None:
    """Every message was accepted, and refused for its form and for its signature. A letter's code
    cannot be made up."""
    for one in OPERATIONS:
        assert world.seen.get((one.path, 200)) or one.path in ("/v1/enrol/code",), one.path
        if one.message is not None:
            assert world.seen.get((one.path, 400)), one.path
        if one.is_signed:
            assert world.seen.get((one.path, 401)), one.path
