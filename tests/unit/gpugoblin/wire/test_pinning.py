"""Connections to a server that is known by its certificate's fingerprint alone."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import requests

from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.tls import make_self_signed


class Greeter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


class Quiet(HTTPServer):
    def handle_error(self, *_: object) -> None:
        """Who does not like the certificate hangs up."""


@contextmanager
def greeting(root: Path) -> Iterator[tuple[str, str]]:
    """The address and the fingerprint of a server."""
    files = make_self_signed(root, ["elsewhere.example"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with Quiet(("127.0.0.1", 0), Greeter) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}", files.sha256
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def pinned(fingerprint: str) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        session.verify = False
        session.mount("https://", PinnedAdapter(fingerprint))
        yield session


def test_the_fingerprint_is_the_only_proof_and_no_authority_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: ssl.SSLContext, *_: object) -> None:
        raise AssertionError("the authorities of the system were read")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", read)
    with greeting(tmp_path) as (address, fingerprint), pinned(fingerprint) as session:
        assert session.get(address, timeout=10).content == b"hello"


def test_another_certificate_is_refused(tmp_path: Path) -> None:
    with greeting(tmp_path) as (address, fingerprint):
        other = fingerprint[:-1] + ("0" if fingerprint[-1] != "0" else "1")
        with pinned(other) as session, pytest.raises(requests.exceptions.SSLError):
            session.get(address, timeout=10)
