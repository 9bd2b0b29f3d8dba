"""Who may tell a node what is damaged."""

from __future__ import annotations

import http.client
import os
import socket
import ssl

import pytest

from tests.helpers.lab import Lab

__all__: list[str] = []


def told(lab: Lab, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("localhost", timeout=10)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(lab.node.settings.socket_path))
    connection.request("POST", "/v1/repair", body)
    reply = connection.getresponse()
    found = (reply.status, reply.read())
    connection.close()
    return found


def test_what_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(lab, b"{}") == (200, b"[]")
    for body in (b"[", b'{"blobs": ["x"]}', b'{"results": [[1]]}', b'{"other": 1}'):
        status, said = told(lab, body)
        assert status == 400
        assert b"parameter_invalid" in said
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr("server_stub.node.http.repair.ROOT", 4712)
    status, said = told(lab, b"{}")
    assert status == 403
    assert b"not_permitted" in said


def test_it_is_not_there_over_https(grid: Lab) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = grid.node.service.port
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    connection.request("POST", "/v1/repair", b"{}")
    assert connection.getresponse().status == 404
    connection.close()
