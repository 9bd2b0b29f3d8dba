"""Traffic, files, rows and memory become bytes and numbers; the hop keeps what it passes on."""

from __future__ import annotations

import base64
import http.server
import json
import os
import secrets
import sqlite3
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import requests
import urllib3

from tests.helpers.canary_hop import Flow, Hop
from tests.helpers.canary_sources import database, files, memory, request_lines, traffic
from tests.helpers.network import Place


def http_message(head: str, body: bytes) -> bytes:
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_numbers_and_tickets_of_traffic() -> None:
    claims = base64.urlsafe_b64encode(b'{"secret_number":4711}').rstrip(b"=")
    ticket = b"eyJhbGciOiJ4In0." + claims + b".c2lnbmF0dXJl"
    body = json.dumps({"a": [1, {"b": 2.5}], "c": True, "t": ticket.decode()}).encode()
    stream = http_message("POST /v1/a?x=1 HTTP/1.1", body) + http_message("GET /v1/b HTTP/1.1", b"")
    flow = Flow("one", bytearray(stream))
    first, second = traffic([flow])
    assert first.data == stream
    assert first.numbers == {1, 2.5, 4711}
    assert second.place == "tickets: one"
    assert b'{"secret_number":4711}' in second.data
    assert request_lines([flow]) == ["POST /v1/a", "GET /v1/b"]


@pytest.mark.parametrize("stream", [b"", b"no http at all", b"GET / HTTP/1.1\r\n\r\n{"])
def test_traffic_that_is_cut_off(stream: bytes) -> None:
    (source,) = traffic([Flow("cut", bytearray(stream))])
    assert source.numbers == frozenset()


def test_files_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "telling-name").write_bytes(b"inside")
    (source,) = files(tmp_path)
    assert b"telling-name" in source.data
    assert b"inside" in source.data


def test_rows_of_a_database_that_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (a, b, c)")
        writer.execute("INSERT INTO t VALUES (1299709, 'text', x'00ff')")
        (source,) = database(path)
    assert source.numbers == {1299709}
    assert b"text" in source.data
    assert b"\x00\xff" in source.data


def test_own_memory() -> None:
    secret = secrets.token_bytes(24)
    try:
        found = [source.place for source in memory(os.getpid()) if secret in source.data]
    except PermissionError:
        pytest.skip("the memory of a process cannot be read here")
    assert found


@contextmanager
def server() -> Iterator[Place]:
    class Echo(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[::-1])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
        thread.start()
        yield Place(f"http://127.0.0.1:{httpd.server_address[1]}", "")
        httpd.shutdown()
        thread.join()


def test_a_hop_keeps_both_directions_before_encryption(tmp_path: Path) -> None:
    body = secrets.token_bytes(999_999) + b"\n"  # a letter would stand before the next POST
    with server() as place, Hop("x", tmp_path) as hop:
        front = hop.before(place)
        assert front.address.startswith("https://")
        with requests.Session() as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
            for _ in range(2):
                reply = session.post(f"{front.address}/v1/a", data=body, verify=False, timeout=20)
                assert reply.content == body[::-1]
        asked, answered = hop.flows()
        assert asked.data.count(body) == 2
        assert answered.data.count(body[::-1]) == 2
        assert request_lines([asked]) == ["POST /v1/a"] * 2
        hop.forget()
        assert [bytes(flow.data) for flow in hop.flows()] == [b"", b""]


def test_a_hop_whose_server_is_away(tmp_path: Path) -> None:
    with Hop("x", tmp_path) as hop, requests.Session() as session:
        front = hop.before(Place("http://127.0.0.1:1", ""))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
            with pytest.raises(requests.ConnectionError):
                session.get(front.address, verify=False, timeout=20)
