"""HTTP over a Unix socket: requests' own manners, on a path."""

from __future__ import annotations

import os
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from gpugoblin.wire import unix_http
from gpugoblin.wire.unix_http import UnixAdapter
from tests.helpers.fake_node import FakeNode


@pytest.fixture
def node(short_path: Path) -> Iterator[FakeNode]:
    with FakeNode(short_path / "s") as running:
        yield running


@pytest.fixture
def session(node: FakeNode) -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.mount("http://", UnixAdapter(node.address.removeprefix("unix:"), 4))
        yield made


def test_any_host_name_leads_to_the_socket(session: requests.Session) -> None:
    for host in ("localhost", "lab.example.org:99"):
        assert session.get(f"http://{host}/v1/health", timeout=5).json()["lab"] == "lab"


def test_the_path_and_query_arrive(session: requests.Session, node: FakeNode) -> None:
    session.get("http://x/v1/jobs/a%2Fb", params={"after": 3}, timeout=5)
    assert node.requests == ["GET /v1/jobs/a%2Fb"]


def test_threads_have_connections_of_their_own(session: requests.Session, node: FakeNode) -> None:
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(session.get("http://x/v1/jobs", timeout=5).status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 4
    assert 1 <= node.connections <= 4


def test_no_socket_is_an_error_of_the_connection(short_path: Path) -> None:
    with requests.Session() as session:
        session.mount("http://", UnixAdapter(str(short_path / "none"), 4))
        with pytest.raises(requests.ConnectionError, match="No such file"):
            session.get("http://x/", timeout=5)


@pytest.mark.parametrize(
    ("listener", "owner", "mode", "is_known"),
    [
        (4242, 1, 0o777, True),
        (0, 1, 0o777, True),
        (77, 77, 0o755, True),
        (77, 77, 0o1777, False),
        (77, 0, 0o755, False),
    ],
)
def test_only_a_known_listener_is_talked_to(
    monkeypatch: pytest.MonkeyPatch, listener: int, owner: int, mode: int, is_known: bool
) -> None:
    class Connection:
        def getsockopt(self, level: int, option: int, size: int) -> bytes:
            return struct.pack("3i", 1, listener, listener)

    place = SimpleNamespace(st_uid=owner, st_mode=stat.S_IFDIR | mode)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 4242)
        patch.setattr(os, "stat", lambda path: {"/srv/lab": place}[path])
        said = unix_http._stranger(Connection(), "/srv/lab/node.sock")  # type: ignore[arg-type]
    assert (said == "") == is_known
    assert is_known or "user 77 listens there" in said


def test_a_stranger_is_an_error_of_the_connection(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_http, "_stranger", lambda connection, path: "somebody listens there")
    with pytest.raises(requests.ConnectionError, match="somebody listens there"):
        session.get("http://x/v1/health", timeout=5)
