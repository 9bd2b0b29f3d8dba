"""One request: signed, pinned, bounded, and every misfortune is an AgentError."""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agent.link import Link, Peer, PeerRefusal
from gpugoblin.clock import SystemClock
from gpugoblin.errors import AgentError
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.signing import public_key_bytes, verify_request
from tests.helpers.agent_network import Reply, Server, refusal


class Echo(Server):
    """Answers with what the test put in `reply`, and keeps what it got."""

    reply: Reply = (200, b"fine", {})

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        self.got = (method, path, headers, body)
        return self.reply


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Echo]:
    made = Echo(tmp_path, "echo")
    yield made
    made.close()


@pytest.fixture
def link(server: Echo) -> Iterator[Link]:
    made = Link(Peer("lab node", server.address, server.files.sha256), KEY, SystemClock())
    yield made
    made.close()


KEY = make_key()


def test_a_request_is_signed_over_path_query_and_body(server: Echo, link: Link) -> None:
    assert link.call("PUT", "/v1/x?offset=3", b"body", max_bytes=10) == b"fine"
    method, path, headers, body = server.got
    assert (method, path, body) == ("PUT", "/v1/x?offset=3", b"body")
    now_s = SystemClock().wall_s()
    signer = verify_request(headers, method, path, body, now_s, lambda *_: False)
    assert signer == public_key_bytes(KEY)


def test_the_connection_is_kept(server: Echo, link: Link) -> None:
    for _ in range(3):
        link.call("GET", "/", max_bytes=10)
    assert len(server.connections) == 1


def test_a_reply_over_its_bound_is_not_read_on(server: Echo, link: Link) -> None:
    server.reply = (200, b"x" * 11, {})
    with pytest.raises(AgentError, match="more than 10 bytes") as caught:
        link.call("GET", "/", max_bytes=10)
    assert caught.value.code == "peer_unexpected"


def test_a_refusal_has_its_code_status_fields_and_wait(server: Echo, link: Link) -> None:
    status, body, _ = refusal(409, "upload_offset", "Not there.\x1b[2J", stored_bytes=7)
    server.reply = (status, body, {"Retry-After": "4"})
    with pytest.raises(PeerRefusal) as caught:
        link.call("GET", "/", max_bytes=10)
    error = caught.value
    assert (error.status, error.refusal, error.retry_after_s) == (409, "upload_offset", 4.0)
    assert error.remote_fields == {"stored_bytes": 7}
    assert "\x1b" not in str(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own error
    assert (again.code, again.refusal, str(again)) == (error.code, error.refusal, str(error))


@pytest.mark.parametrize("wait", ["-1", "soon", "999999999", "1.5"])
def test_a_senseless_wait_is_ignored(server: Echo, link: Link, wait: str) -> None:
    status, body, _ = refusal(503, "busy")
    server.reply = (status, body, {"Retry-After": wait})
    with pytest.raises(PeerRefusal) as caught:
        link.call("GET", "/", max_bytes=10)
    assert caught.value.retry_after_s is None


def test_nobody_there() -> None:
    link = Link(Peer("lab node", "https://127.0.0.1:9", "ab" * 32), KEY, SystemClock())
    with pytest.raises(AgentError, match="refused") as caught:
        link.call("GET", "/", max_bytes=10)
    assert caught.value.code == "peer_away"
    link.close()


def test_a_silent_server(server: Echo, link: Link) -> None:
    server.lock.acquire()
    server.answer = lambda *_: (server.lock.acquire(timeout=1.0), server.reply)[1]  # type: ignore[method-assign]
    with pytest.raises(AgentError) as caught:
        link.call("GET", "/", max_bytes=10, timeout_s=0.1)
    server.lock.release()
    assert caught.value.code == "peer_silent"


def test_another_certificate_gets_no_request(server: Echo) -> None:
    link = Link(Peer("lab node", server.address, "ab" * 32), KEY, SystemClock())
    with pytest.raises(AgentError) as caught:
        link.call("GET", "/", max_bytes=10)
    link.close()
    assert caught.value.code == "peer_untrusted"
    assert not server.requests


def test_without_a_pin_the_authorities_decide(server: Echo) -> None:
    link = Link(Peer("lab node", server.address), KEY, SystemClock())
    with pytest.raises(AgentError) as caught:
        link.call("GET", "/", max_bytes=10)
    link.close()
    assert caught.value.code == "peer_untrusted"


class Proxy:
    """Lets through to one port whoever brings the word `Basic bmFtZTp3b3Jk` (name:word)."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += client.recv(4096)
                self.asked.append(head.partition(b"\r\n")[0].decode())
                if b"Basic bmFtZTp3b3Jk" not in head:
                    client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                    continue
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                with (
                    socket.create_connection(("127.0.0.1", self._port)) as server,
                    contextlib.suppress(ConnectionError),  # whoever does not trust breaks it off
                ):
                    self._between(client, server)

    def _between(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            for one in select.select([client, server], [], [])[0]:
                data = one.recv(65536)
                if not data:
                    return
                (server if one is client else client).sendall(data)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@pytest.fixture
def proxy(server: Echo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    made = Proxy(int(server.address.rpartition(":")[2]))
    yield made
    made.close()


def test_b385_b411_b325_a_proxy_of_the_environment_with_its_password(
    server: Echo, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://name:word@127.0.0.1:{proxy.port}")
    link = Link(Peer("lab node", "https://lab.test", server.files.sha256), KEY, SystemClock())
    assert link.call("GET", "/", max_bytes=10) == b"fine"
    link.close()
    other = Link(Peer("lab node", "https://lab.test", "ab" * 32), KEY, SystemClock())
    with pytest.raises(AgentError) as caught:
        other.call("GET", "/", max_bytes=10)
    assert caught.value.code == "peer_untrusted"  # a proxy may not speak for the peer
    other.close()
    assert [line.rpartition(" ")[0] for line in proxy.asked] == ["CONNECT lab.test:443"] * 2


def test_i628_a_proxy_that_refuses_is_said_plainly_without_the_password(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://name:wrong@127.0.0.1:{proxy.port}")
    link = Link(Peer("lab node", "https://lab.test", "ab" * 32), KEY, SystemClock())
    with pytest.raises(AgentError, match="407") as caught:
        link.call("GET", "/", max_bytes=10)
    link.close()
    assert caught.value.code == "proxy_refused"
    assert "wrong" not in str(caught.value)


def test_what_is_near_is_asked_without_the_proxy(
    server: Echo, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "lab.test")
    assert link.call("GET", "/", max_bytes=10) == b"fine"
    named = Link(Peer("lab node", "https://lab.test", "ab" * 32), KEY, SystemClock())
    assert not named._session.proxies
    named.close()


@pytest.mark.parametrize(
    "address",
    ["ftp://x", "https://", "https://u@x", "https://x/y", "https://x?y", "http://example.org", ""],
)
def test_addresses_that_are_never_used(address: str) -> None:
    with pytest.raises(AgentError) as caught:
        Peer("lab node", address)
    assert caught.value.code == "address_refused"


def test_plain_http_is_for_this_machine_alone() -> None:
    assert Peer("lab node", "http://127.0.0.1:80").address
    assert Peer("lab node", "http://[::1]:80").address


def test_a_stream_fills_its_target_in_pieces(server: Echo, link: Link) -> None:
    data = bytes(range(256)) * 4000
    server.reply = (206, data, {"Content-Range": f"bytes 100-{100 + len(data) - 1}/5000000"})
    target, seen = bytearray(len(data)), []
    link.stream(
        "/b", 100, memoryview(target), headers={"X": "y"},
        goes_on=lambda there: seen.append(there) is None,
    )  # fmt: skip
    assert target == data
    assert seen[-1] == len(data)
    assert len(seen) > 1
    assert server.got[2]["Range"] == f"bytes=100-{100 + len(data) - 1}"


def test_a_stream_can_be_broken_off(server: Echo, link: Link) -> None:
    data = b"x" * 2_000_000
    server.reply = (206, data, {"Content-Range": f"bytes 0-{len(data) - 1}/5000000"})
    target = bytearray(len(data))
    link.stream("/b", 0, memoryview(target), headers={}, goes_on=lambda there: False)
    assert target[-1] == 0
