"""Roles, sharing and revocation over the wire: a token that ends ends what it was doing."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobInfo, JobList
from gpugoblin.wire.messages.sharing import JobShare, JobSharing
from gpugoblin.wire.remote import RemoteError
from gpugoblin.wire.transport import Endpoint, Transport
from server_stub.node import users
from server_stub.node.store.protocol import Tx
from tests.helpers.lab import Lab, fresh_hex, on_grid, product, refused, until
from tests.helpers.node_pages import Browser

__all__: list[str] = []


class Door:
    """Tokens and clients of one node."""

    def __init__(self, grid: Lab, stack: ExitStack) -> None:
        self.grid, self.stack = grid, stack
        service = grid.node.service
        assert service.tls is not None
        self.port, self.sha256 = service.port, service.tls.sha256

    def change(self, body: Callable[[Tx], Any]) -> Any:
        async def write() -> Any:
            return await self.grid.node.node.store.write(body)

        return self.grid.node.call(write())

    def token(self, name: str) -> str:
        made = self.change(lambda tx: users.add(tx, 1.0, name, users.SCOPES))
        assert isinstance(made, str)
        return made

    def client(self, token: str) -> Transport:
        made = Transport(Endpoint(f"https://127.0.0.1:{self.port}", token, self.sha256))
        self.stack.callback(made.close)
        return made

    def revoke(self, name: str) -> None:
        self.change(lambda tx: users.revoke(tx, 2.0, name))


@pytest.fixture
def door(grid: Lab) -> Iterator[Door]:
    with ExitStack() as stack:
        yield Door(grid, stack)


def upload(door: Door, token: str, array: str, size: int) -> socket.socket:
    """A connection on which half of an upload has been sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", door.port))
    wrapped = context.wrap_socket(plain)
    door.stack.callback(wrapped.close)
    head = (
        f"PUT /v1/arrays/{array}/bytes?offset=0 HTTP/1.1\r\nhost: node\r\n"
        f"authorization: Bearer {token}\r\ncontent-length: {size}\r\n\r\n"
    )
    wrapped.sendall(head.encode() + bytes(size // 2))
    return wrapped


def test_a_token_revoked_in_an_upload_ends_it_and_leaves_nothing(door: Door) -> None:
    token = door.token("ann")
    size = 24 * 2**20
    message = ArrayCreate("upload", "float32", (size // 4,), fresh_hex())
    info = door.client(token).call("POST", "/v1/arrays", ArrayInfo, body=message)
    path = door.grid.root / "state" / "arrays" / f"{info.array}.raw"
    connection = upload(door, token, info.array, size)
    until(lambda: path.stat().st_size > 0)
    door.revoke("ann")
    connection.settimeout(30.0)
    answer = b""
    with contextlib.suppress(OSError):  # the node has closed it already
        connection.sendall(bytes(size // 2))
    with contextlib.suppress(OSError):
        while b"token_revoked" not in answer and (piece := connection.recv(65536)):
            answer += piece
    assert answer == b"" or (b" 401 " in answer and b"token_revoked" in answer)
    until(lambda: not path.exists())
    left = door.change(lambda tx: tx.rows("select id from array where id = ?", (info.array,)))
    assert left == []


def test_a_token_revoked_while_a_request_is_held_ends_it(door: Door) -> None:
    token = door.token("ann")
    client = door.client(token)
    submitted = hold_a_job(door)
    found: list[str] = []

    def wait() -> None:
        began_s = time.monotonic()
        try:
            client.call("GET", f"/v1/jobs/{submitted}", JobInfo, query={"wait_s": 40, "after": 0},
                        read_timeout_s=60.0)  # fmt: skip
        except RemoteError as error:
            found.append(error.code)
        found.append("late" if time.monotonic() - began_s > 30 else "soon")

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    door.revoke("ann")
    thread.join(timeout=60)
    assert found == ["token_revoked", "soon"]


def hold_a_job(door: Door) -> str:
    """A job of the node's own user that never ends, shared with the lab."""
    a, b, graph = product(8, 8, 8)
    inputs = [door.grid.file(array, f"{name}.npy") for array, name in ((a, "a"), (b, "b"))]
    info = on_grid(door.grid, graph, *inputs, name="held")
    door.grid.client.call("POST", f"/v1/jobs/{info.job}/share", JobSharing, body=JobShare(lab=True))
    return str(info.job)


def test_a_shared_job_is_seen_and_not_ended_by_others(door: Door) -> None:
    ann, root = door.client(door.token("ann")), door.client(door.token("boss"))
    door.change(lambda tx: users.set_role(tx, 1.0, "boss", "administrator"))
    job = hold_a_job(door)
    assert ann.call("GET", f"/v1/jobs/{job}", JobInfo).job == job
    assert ann.call("GET", "/v1/jobs", JobList).jobs == ()
    assert [one.job for one in ann.call("GET", "/v1/jobs", JobList, query={"all": 1}).jobs] == [job]
    refused("not_the_owner", lambda: ann.call("POST", f"/v1/jobs/{job}/cancel", JobInfo))
    refused("not_the_owner", lambda: ann.fetch("DELETE", f"/v1/jobs/{job}", max_bytes=1000))
    share = JobShare(("ann",))
    refused("not_the_owner",
            lambda: ann.call("POST", f"/v1/jobs/{job}/share", JobSharing, body=share))  # fmt: skip
    door.grid.client.call("POST", f"/v1/jobs/{job}/share", JobSharing, body=JobShare())
    refused("unknown_job", lambda: ann.call("GET", f"/v1/jobs/{job}", JobInfo))
    assert root.call("GET", f"/v1/jobs/{job}/sharing", JobSharing).lab is False
    assert root.call("POST", f"/v1/jobs/{job}/cancel", JobInfo).state == "cancelled"


def test_a_token_revoked_in_a_download_ends_it(door: Door) -> None:
    token = door.token("ann")
    client, size = door.client(token), 48 * 2**20
    message = ArrayCreate("upload", "float32", (size // 4,), fresh_hex())
    info = client.call("POST", "/v1/arrays", ArrayInfo, body=message)
    client.upload(f"/v1/arrays/{info.array}/bytes", bytes(size), ArrayInfo, query={"offset": 0})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", door.port))) as connection:
        connection.settimeout(30.0)
        target = f"/v1/arrays/{info.array}/region?start=0&stop={size // 4}"
        connection.sendall(
            f"GET {target} HTTP/1.1\r\nhost: node\r\nauthorization: Bearer {token}\r\n\r\n".encode()
        )
        first = connection.recv(4096)
        assert first.startswith(b"HTTP/1.1 200 ")
        door.revoke("ann")
        received = len(first)
        with contextlib.suppress(OSError):
            while piece := connection.recv(2**20):
                received += len(piece)
    assert received < size
    until(lambda: door.grid.node.read("select count(*) from lent") == [(0,)])


def asked(connection: socket.socket, target: str) -> bytes:
    """The whole answer to a GET on a connection that stays open."""
    connection.sendall(f"GET {target} HTTP/1.1\r\nhost: node\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65536)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def test_an_open_connection_of_a_revoked_user_of_this_machine_is_refused(door: Door) -> None:
    name = pwd.getpwuid(os.getuid()).pw_name
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30.0)
        connection.connect(str(door.grid.node.settings.socket_path))
        assert b" 200 " in asked(connection, "/v1/jobs")[:16]
        door.revoke(name)
        answer = asked(connection, "/v1/jobs")
        assert b" 403 " in answer[:16]
        assert b"user_revoked" in answer
        door.change(lambda tx: users.set_role(tx, 3.0, name, "researcher"))
        assert b" 200 " in asked(connection, "/v1/jobs")[:16]


def test_a_held_request_of_a_revoked_user_of_this_machine_ends(door: Door) -> None:
    name = pwd.getpwuid(os.getuid()).pw_name
    job = hold_a_job(door)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30.0)
        connection.connect(str(door.grid.node.settings.socket_path))
        timer = threading.Timer(0.3, door.revoke, (name,))
        timer.start()
        answer = asked(connection, f"/v1/jobs/{job}?wait_s=40&after=0")
        timer.join()
    assert b"user_revoked" in answer


def test_a_revoked_user_has_no_way_in_left_and_comes_back_by_a_new_token_alone(door: Door) -> None:
    first = door.token("ann")
    second = door.change(lambda tx: users.add(tx, 1.0, "ann", users.SCOPES, token="laptop"))
    with Browser(door.grid) as one, Browser(door.grid) as other:
        one.sign_in(first)
        other.sign_in(second)
        assert [each.get("/node").status_code for each in (one, other)] == [200, 200]
        door.revoke("ann")

        def all_are_out() -> None:
            for token in (first, second):
                client = door.client(token)
                refused("token_revoked", lambda: client.call("GET", "/v1/jobs", JobList))  # noqa: B023
            for each in (one, other):
                for path in ("/jobs", "/node", "/jobs/x"):
                    assert each.get(path).headers["location"] == "/signin"
                assert each.post("/signout").headers["location"] == "/signin"

        all_are_out()
        fresh = door.token("ann")
        assert door.client(fresh).call("GET", "/v1/jobs", JobList).jobs == ()
        all_are_out()
