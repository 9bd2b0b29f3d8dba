"""A look at a lab from outside."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugoblin.wire.tls import TlsFiles, make_self_signed
from server_stub.coordinator import probing
from server_stub.coordinator.probing import look

__all__: list[str] = []


@contextlib.contextmanager
def listener(tls: TlsFiles | None, words: bytes = b"") -> Iterator[int]:
    """Answers one connection, with TLS or with `words`."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            connection.settimeout(5)
            with connection:
                if tls is None:
                    connection.sendall(words)
                    return
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(tls.certificate, tls.key)
                with context.wrap_socket(connection, server_side=True) as secure:
                    assert secure.recv(10) == b""  # not one byte after the handshake

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        thread.join()
        server.close()


def seen(address: str, pin: str | None = None, asker: str = "127.0.0.1") -> probing.Seen:
    return asyncio.run(look(address, pin, asker))


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    return make_self_signed(tmp_path, ["localhost"])


def test_a_node_that_is_there(tls: TlsFiles) -> None:
    with listener(tls) as port:
        found = seen(f"https://127.0.0.1:{port}", tls.sha256)
    assert (found.outcome, found.sha256) == ("reached", tls.sha256)
    assert 0 < found.took_s < probing.PATIENCE_S


def test_another_certificate_and_none_of_an_authority(tls: TlsFiles) -> None:
    with listener(tls) as port:
        found = seen(f"https://127.0.0.1:{port}", "ab" * 32)
    assert (found.outcome, found.sha256) == ("certificate_differs", tls.sha256)
    with listener(tls) as port:
        assert seen(f"https://localhost:{port}").outcome == "tls_failed"


def test_what_else_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with listener(None, b"SSH-2.0-none\r\n") as port:
        assert seen(f"https://127.0.0.1:{port}", "ab" * 32).outcome == "tls_failed"
    assert seen(f"https://127.0.0.1:{port}", "ab" * 32).outcome == "refused"
    assert seen("https://no-such-host.invalid:1").outcome == "name_unknown"
    assert seen("https://127.0.0.1:99999").outcome == "unreachable"
    monkeypatch.setattr(probing, "PATIENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert seen(f"https://127.0.0.1:{port}", "ab" * 32).outcome == "timed_out"


@pytest.mark.parametrize("asker", ["203.0.114.7", "2600::7", "", "nobody"])
def test_a_name_is_no_way_into_a_network_that_the_asker_is_not_in(
    tls: TlsFiles, asker: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as inner:
        inner.settimeout(0.2)
        port = inner.getsockname()[1]
        assert seen(f"https://localhost:{port}", tls.sha256, asker).outcome == "unreachable"
        with pytest.raises(TimeoutError):
            inner.accept()
    with listener(tls) as port:
        assert seen(f"https://localhost:{port}", tls.sha256).outcome == "reached"
    with listener(tls) as port:
        assert seen(f"https://127.0.0.1:{port}", tls.sha256, asker).outcome == "reached", (
            "the operator has registered that address"
        )


def test_addresses_in_other_spelling_are_the_same() -> None:
    for text in ("::ffff:10.0.0.1", "fe80::1%eth0", "169.254.169.254", "::1", "100.64.0.1"):
        assert probing._is_private(text), text
    for text in ("::ffff:8.8.8.8", "8.8.8.8", "", "x"):
        assert not probing._is_private(text), text
