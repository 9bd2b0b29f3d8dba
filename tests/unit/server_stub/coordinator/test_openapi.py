"""The OpenAPI document says what the application does."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route

from gpugoblin.error_codes import ALL_CODES
from gpugoblin.wire.messages.contact import Contact, ContactReply
from gpugoblin.wire.messages.enrol import EnrolCode, EnrolCodeReply
from gpugoblin.wire.signing import HEADERS
from server_stub.coordinator import openapi
from server_stub.coordinator.gate import status_of_code
from server_stub.coordinator.openapi import OPERATIONS, Operation
from server_stub.coordinator.store import SqliteStore, create
from server_stub.coordinator.web.site import PAGES
from tests.helpers.coordinator_front import Front
from tests.helpers.named_tests import ROOT

DOCUMENT = openapi.document("0")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    create(tmp_path / "db")
    opened = SqliteStore(tmp_path / "db")
    yield opened
    opened.close()


def test_the_page_is_fresh() -> None:
    shipped = ROOT / "docs" / "reference" / "openapi.json"
    assert shipped.read_text(encoding="utf-8") == openapi.page()


def test_every_route_that_is_no_page_is_described(store: SqliteStore) -> None:
    pages = {page.path for page in PAGES} | {"/language", "/static/{name}"}
    found = {
        (method.lower(), route.path)
        for route in Front(store).app.routes
        if isinstance(route, Route) and route.path not in pages
        for method in (route.methods or ()) if method != "HEAD"
    }  # fmt: skip
    assert found == {(one.method, one.path) for one in OPERATIONS}
    assert found == {
        (method, path) for path, methods in DOCUMENT["paths"].items() for method in methods
    }


def test_names_in_the_document_are_declared_and_every_schema_is_used() -> None:
    text = json.dumps(DOCUMENT)
    for name in DOCUMENT["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text, name
    assert "\\\\A" not in text
    assert "\\\\Z" not in text
    assert set(DOCUMENT["components"]["securitySchemes"]) == set(HEADERS)


@pytest.mark.parametrize("one", OPERATIONS, ids=lambda one: one.path)
def test_refusals_stand_at_their_status(one: Operation) -> None:
    responses = DOCUMENT["paths"][one.path][one.method]["responses"]
    assert "200" in responses
    for code in one.codes:
        assert code in ALL_CODES
        assert f"`{code}`" in responses[str(status_of_code(code))]["description"]


def test_bounds_of_the_messages_stand_in_the_schemas() -> None:
    contact = DOCUMENT["components"]["schemas"]["Contact"]
    assert contact["additionalProperties"] is False
    assert contact["required"] == ["cards"]
    assert contact["properties"]["cards"]["maxItems"] == 64
    poll = DOCUMENT["components"]["schemas"]["EnrolPoll"]["properties"]["enrolment"]
    key = DOCUMENT["components"]["schemas"]["EnrolStart"]["properties"]["public_key"]
    assert re.fullmatch(key["pattern"], base64.b64encode(bytes(32)).decode())
    for size in (31, 33):
        assert not re.fullmatch(key["pattern"], base64.b64encode(bytes(size)).decode())
    assert (poll["pattern"], poll["maxLength"]) == ("^[a-z]{1,12}_[a-z2-7]{1,26}$", 40)


def test_replies_are_those_of_the_handlers() -> None:
    found = {one.path: (one.message, one.reply) for one in OPERATIONS}
    assert found["/v1/contact"] == (Contact, ContactReply)
    assert found["/v1/enrol/code"] == (EnrolCode, EnrolCodeReply)
    assert found["/health"] == (None, None)


def test_a_refusal_has_the_form_that_is_described(store: SqliteStore) -> None:
    reply = Front(store).send("POST", "/v1/contact", b"{}")
    assert reply.status == 401
    declared = DOCUMENT["components"]["schemas"]["Refusal"]
    assert set(declared["properties"]) == set(declared["required"]) == set(reply.json)
