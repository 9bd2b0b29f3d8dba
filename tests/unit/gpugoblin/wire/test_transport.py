"""The HTTP client: what it trusts, what it repeats, what it refuses."""

from __future__ import annotations

import json
import pickle
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpugoblin.errors import ClientError, WireError
from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobInfo, JobList
from gpugoblin.wire.remote import RemoteError, remote_error
from gpugoblin.wire.transport import Endpoint, Transport
from tests.helpers.fake_node import FakeNode

CREATE = ArrayCreate(source="upload", dtype="float32", shape=(2,), fingerprint="0" * 64)


@pytest.fixture
def node(short_path: Path) -> Iterator[FakeNode]:
    with FakeNode(short_path / "s") as running:
        yield running


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def link(node: FakeNode, pauses: list[float]) -> Iterator[Transport]:
    transport = Transport(Endpoint(node.address), sleep=pauses.append)
    yield transport
    transport.close()


def certificate(directory: Path) -> tuple[ssl.SSLContext, str, Path]:
    """A server's context, the fingerprint of its certificate, and the certificate's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file = directory / "node.pem"
    key_file = directory / "node.key"
    certificate_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)
    return context, made.fingerprint(hashes.SHA256()).hex(), certificate_file


def test_one_connection_serves_many_requests(node: FakeNode, link: Transport) -> None:
    for _ in range(5):
        assert link.call("GET", "/v1/jobs", JobList).jobs == ()
    assert node.connections == 1


def test_a_reply_beyond_its_message_is_refused(node: FakeNode, link: Transport) -> None:
    node.spoil["/v1/arrays"] = [(200, b" " * (64 * 1024 + 1))]
    with pytest.raises(WireError) as caught:
        link.call("POST", "/v1/arrays", ArrayInfo, body=CREATE)
    assert caught.value.code == "message_too_large"


def test_a_reply_that_is_no_message_is_refused(node: FakeNode, link: Transport) -> None:
    node.spoil["/v1/jobs"] = [(200, b'{"jobs": 3}')]
    with pytest.raises(WireError) as caught:
        link.call("GET", "/v1/jobs", JobList)
    assert caught.value.code == "message_malformed"


def test_the_nodes_own_words_are_raised(node: FakeNode, link: Transport) -> None:
    with pytest.raises(RemoteError) as caught:
        link.call("GET", "/v1/jobs/nothing", JobInfo)
    error = caught.value
    assert (error.status, error.code) == (404, "unknown_job")
    assert str(error) == (
        "There is no job nothing of yours on this node. Do otherwise. [unknown_job]"
    )
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (again.code, again.what, again.fields) == (error.code, error.what, error.fields)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"code": ""}', b" " * 70_000, b"\xff"])
def test_a_refusal_without_an_explanation(node: FakeNode, link: Transport, body: bytes) -> None:
    node.spoil["/v1/jobs"] = [(418, body)]
    with pytest.raises(ClientError) as caught:
        link.call("GET", "/v1/jobs", JobList)
    assert caught.value.code == "reply_unexpected"
    assert "418" in str(caught.value)
    assert remote_error(418, body) is None


def test_busy_and_gone_are_tried_again_where_that_is_safe(
    node: FakeNode, link: Transport, pauses: list[float]
) -> None:
    node.spoil["/v1/jobs"] = [(503, b""), (0, b""), (502, b"")]
    assert link.call("GET", "/v1/jobs", JobList).jobs == ()
    assert pauses == [0.1, 0.4, 1.6]


def test_the_last_try_tells_what_the_node_said(
    node: FakeNode, link: Transport, pauses: list[float]
) -> None:
    said = json.dumps({"code": "shutting_down", "what": "It is stopping."}).encode()
    node.spoil["/v1/jobs"] = [(503, said)] * 4
    with pytest.raises(RemoteError) as caught:
        link.call("GET", "/v1/jobs", JobList)
    assert caught.value.code == "shutting_down"
    assert len(pauses) == 3


def test_what_may_have_happened_is_not_done_twice(
    node: FakeNode, link: Transport, pauses: list[float]
) -> None:
    node.spoil["/v1/arrays"] = [(0, b"")]
    with pytest.raises(ClientError) as caught:
        link.call("POST", "/v1/arrays", ArrayInfo, body=CREATE)
    assert caught.value.code == "node_unreachable"
    assert node.requests == ["POST /v1/arrays"]
    assert pauses == []


def test_what_was_never_sent_is_tried_again(short_path: Path, pauses: list[float]) -> None:
    transport = Transport(Endpoint(f"unix:{short_path}/nobody"), sleep=pauses.append)
    with pytest.raises(ClientError) as caught:
        transport.call("POST", "/v1/arrays", ArrayInfo, body=CREATE)
    transport.close()
    assert len(pauses) == 3
    assert caught.value.code == "node_unreachable"
    assert "No such file or directory" in str(caught.value)
    assert "Connection(" not in str(caught.value)


def test_a_closed_port_is_named_plainly(pauses: list[float]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        transport = Transport(Endpoint(address), sleep=pauses.append)
        with pytest.raises(ClientError) as caught:
            transport.fetch("GET", "/v1/health", max_bytes=100)
        transport.close()
    assert caught.value.code == "node_unreachable"
    assert "refused" in str(caught.value)


def test_a_silent_node_times_out(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(short_path / "s"))
        silent.listen()
        transport = Transport(Endpoint(f"unix:{short_path}/s"), sleep=lambda _: None)
        with pytest.raises(ClientError) as caught:
            transport.call(
                "POST", "/v1/arrays", ArrayInfo, body=CREATE, read_timeout_s=0.05, repeatable=False
            )
        transport.close()
    assert caught.value.code == "node_silent"
    assert "0.05 s" in str(caught.value)


def test_download_fills_exactly(node: FakeNode, link: Transport) -> None:
    target = bytearray(4)
    node.spoil["/v1/arrays"] = [(200, b"abcd"), (200, b"abc"), (200, b"abcde")]
    link.download("/v1/arrays/x/region", memoryview(target))
    assert target == b"abcd"
    for _ in range(2):
        with pytest.raises(ClientError) as caught:
            link.download("/v1/arrays/x/region", memoryview(target))
        assert caught.value.code == "reply_unexpected"


def test_a_redirection_is_not_followed(node: FakeNode, link: Transport) -> None:
    node.spoil["/v1/jobs"] = [(302, b"")]
    with pytest.raises(ClientError) as caught:
        link.call("GET", "/v1/jobs", JobList)
    assert caught.value.code == "reply_unexpected"


def test_the_pinned_certificate_is_the_only_proof(tmp_path: Path) -> None:
    context, fingerprint, _ = certificate(tmp_path)
    with FakeNode(tls=context) as node:
        node.token = "secret"
        good = Transport(Endpoint(node.address, "secret", certificate_sha256=fingerprint))
        assert good.call("GET", "/v1/jobs", JobList).jobs == ()
        good.close()
        wrong = Transport(Endpoint(node.address, "secret", certificate_sha256="ab" * 32))
        with pytest.raises(ClientError) as caught:
            wrong.call("GET", "/v1/jobs", JobList)
        wrong.close()
    assert caught.value.code == "node_not_trusted"
    assert node.requests == ["GET /v1/jobs"]


def test_an_authority_file_decides_alone(tmp_path: Path) -> None:
    context, _, certificate_file = certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    _, _, other_file = certificate(other)
    with FakeNode(tls=context) as node:
        good = Transport(Endpoint(node.address, "t", ca_file=str(certificate_file)))
        assert good.call("GET", "/v1/jobs", JobList).jobs == ()
        good.close()
        for authority in (str(other_file), ""):
            wrong = Transport(Endpoint(node.address, "t", ca_file=authority))
            with pytest.raises(ClientError) as caught:
                wrong.call("GET", "/v1/jobs", JobList)
            wrong.close()
            assert caught.value.code == "node_not_trusted"


def test_a_wrong_token_is_refused_in_the_nodes_words(tmp_path: Path) -> None:
    context, fingerprint, _ = certificate(tmp_path)
    with FakeNode(tls=context) as node:
        node.token = "secret"
        transport = Transport(Endpoint(node.address, "other", certificate_sha256=fingerprint))
        with pytest.raises(RemoteError) as caught:
            transport.call("GET", "/v1/jobs", JobList)
        transport.close()
    assert (caught.value.status, caught.value.code) == (401, "not_authenticated")


def test_no_variable_of_the_environment_redirects(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine localhost login a password b\n")
    for name, value in (
        ("HTTP_PROXY", "http://127.0.0.1:1"),
        ("http_proxy", "http://127.0.0.1:1"),
        ("HOME", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    transport = Transport(Endpoint(node.address))
    assert transport.call("GET", "/v1/jobs", JobList).jobs == ()
    transport.close()


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("ftp://lab", "address_malformed"),
        ("lab.example.org", "address_malformed"),
        ("https://", "address_malformed"),
        ("https://lab/?x=1", "address_malformed"),
        ("https://me@lab", "address_malformed"),
        ("http://lab.example.org", "token_over_plain_http"),
    ],
)
def test_addresses_that_are_refused(address: str, code: str) -> None:
    with pytest.raises(ClientError) as caught:
        Endpoint(address, token="secret")
    assert caught.value.code == code


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(Endpoint("https://lab", token="secret"))
