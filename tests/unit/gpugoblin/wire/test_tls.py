"""Self-made certificates: served, pinned, kept."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from gpugoblin.errors import WireError
from gpugoblin.wire.tls import certificate_sha256, make_self_signed


def test_a_connection_shows_the_pinned_certificate(tmp_path: Path) -> None:
    files = make_self_signed(tmp_path, ["localhost", "127.0.0.1", "::1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    client = ssl.create_default_context(cafile=str(files.certificate))
    near, far = socket.socketpair()

    def answer() -> None:
        with server.wrap_socket(far, server_side=True) as connection:
            connection.sendall(connection.recv(5))

    thread = threading.Thread(target=answer)
    thread.start()
    with client.wrap_socket(near, server_hostname="127.0.0.1") as connection:
        shown = connection.getpeercert(binary_form=True)
        connection.sendall(b"hello")
        assert connection.recv(5) == b"hello"
    thread.join()
    assert shown is not None
    assert hashlib.sha256(shown).hexdigest() == files.sha256


def test_files_that_are_there_are_kept(tmp_path: Path) -> None:
    first = make_self_signed(tmp_path, ["localhost"])
    assert make_self_signed(tmp_path, ["other.example"]) == first
    assert first.key.stat().st_mode & 0o777 == 0o600


def test_half_a_pair_is_made_anew(tmp_path: Path) -> None:
    first = make_self_signed(tmp_path, ["localhost"])
    first.certificate.unlink()
    second = make_self_signed(tmp_path, ["localhost"])
    assert second.sha256 != first.sha256
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(second.certificate, second.key)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nno\n"])
def test_damaged_certificate(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tls.crt"
    path.write_bytes(content)
    with pytest.raises(WireError) as caught:
        certificate_sha256(path)
    assert caught.value.code == "certificate_unreadable"


def test_unwritable_directory(tmp_path: Path) -> None:
    blocking = tmp_path / "file"
    blocking.write_bytes(b"")
    with pytest.raises(WireError) as caught:
        make_self_signed(blocking, ["localhost"])
    assert caught.value.code == "certificate_unreadable"
