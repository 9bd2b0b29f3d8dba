"""Browsers are told to use TLS alone where they see a certificate that they trust."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server_stub.coordinator.only_tls import HEADER, words
from server_stub.coordinator.store import SqliteStore, create
from tests.helpers.coordinator import settings
from tests.helpers.coordinator_front import Front

FILES = {"tls": "files", "tls_certificate": "/c.pem", "tls_key": "/k.pem"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    create(tmp_path / "db")
    opened = SqliteStore(tmp_path / "db")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({}, ""),
        ({"tls": "off"}, ""),
        ({"tls": "off", "public_url": "http://grid.example.org"}, ""),
        ({"tls": "off", "public_url": "https://grid.example.org"}, "max-age=31536000"),
        (FILES, "max-age=31536000"),
        ({**FILES, "only_tls": "subdomains"}, "max-age=31536000; includeSubDomains"),
        ({**FILES, "only_tls": "off"}, ""),
    ],
)
def test_when_and_what(chosen: dict[str, object], said: str) -> None:
    assert words(settings(**chosen)) == said


def test_every_answer_says_so(store: SqliteStore) -> None:
    told = Front(store, chosen={"tls": "off", "public_url": "https://grid.example.org"})
    plain = Front(store)
    for method, path in (
        ("GET", "/"), ("GET", "/static/site.css"), ("GET", "/v1/status"), ("GET", "/nothing"),
        ("POST", "/v1/contact"), ("POST", "/signin"), ("GET", "/account"), ("GET", "/health"),
    ):  # fmt: skip
        assert told.send(method, path).headers[HEADER.lower()] == "max-age=31536000", path
        assert HEADER.lower() not in plain.send(method, path).headers
