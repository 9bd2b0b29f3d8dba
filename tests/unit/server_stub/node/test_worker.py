"""A worker process, spoken to over its socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.blobs.chunk import blob_hash
from server_stub.node.work import (
    Begun,
    Check,
    Computed,
    Describe,
    Described,
    Failed,
    Prepare,
    Prepared,
    Told,
    Work,
)
from server_stub.node.workers.frames import LENGTH, decode_reply, encode_frame, receive_frame
from tests.helpers.node_work import compute_item, load_file, product_graph, region_of, result_of

ARRAY = np.random.default_rng(0).standard_normal((40, 30), dtype=np.float32)


class Peer:
    """The service's end."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.connection = connection
        self.process = process
        self.begun: list[str] = []

    def do(self, work: Work) -> Told:
        """Its answer, which comes after the word that it has begun where it could begin."""
        self.connection.sendall(encode_frame(work))
        told = self.told()
        if isinstance(told, Begun):
            assert told == Begun(work.work)
            self.begun.append(work.work)
            return self.told()
        return told

    def told(self) -> Told:
        body = receive_frame(self.connection.recv)
        assert body is not None
        return decode_reply(body)


@contextmanager
def worker(place: Path, kind: str, parent: int | None = None) -> Iterator[Peer]:
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    arguments = [
        "--fd", str(theirs.fileno()), "--kind", kind, "--state", str(place / "state"),
        "--blobs", str(place / "blobs"), "--level", "none", "--memory-bytes", "16000000",
        "--cache-bytes", "8000000", "--parent", str(os.getpid() if parent is None else parent),
    ]  # fmt: skip
    with ours:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "server_stub.node.worker", *arguments],
            pass_fds=(theirs.fileno(),),
            stderr=subprocess.PIPE,
        )
        theirs.close()
        try:
            yield Peer(ours, process)
        finally:
            process.kill()
            process.communicate()


def test_checks_and_a_clean_end(tmp_path: Path) -> None:
    source = region_of(tmp_path, "a", ARRAY)
    with worker(tmp_path, "check") as peer:
        assert peer.do(Describe("d", "npy", source.array.path)) == Described("d", source.array)
        prepared = peer.do(Prepare("p", source, store=True))
        assert prepared == Prepared("p", blob_hash(ARRAY.tobytes()), ARRAY.nbytes)
        refused = peer.do(Describe("d", "npy", str(tmp_path / "missing.npy")))
        assert isinstance(refused, Failed)
        assert refused.code == "array_unreadable"
        assert peer.begun == ["d", "p", "d"]
        peer.connection.shutdown(socket.SHUT_WR)
        assert peer.process.wait(30) == 0


def test_computes(tmp_path: Path) -> None:
    graph = product_graph(40, 30, 300)
    b = np.ones((30, 300), np.float32)
    inputs = (region_of(tmp_path, "a", ARRAY), region_of(tmp_path, "b", b))
    place = result_of(tmp_path, "c", "float32", (40, 300))
    with worker(tmp_path, "local") as peer:
        reply = peer.do(compute_item("t", graph, inputs, (place,)))
        assert isinstance(reply, Computed)
        assert reply.verified
        np.testing.assert_allclose(load_file(place.array), ARRAY @ b, rtol=1e-4, atol=1e-4)
        wrong = peer.do(Check("x", b"", "float32", (), (), (), fold=False))
        assert isinstance(wrong, Failed)
        assert wrong.code == "worker_protocol"
        assert peer.begun == ["t"]
        peer.connection.shutdown(socket.SHUT_WR)
        assert peer.process.wait(30) == 0


@pytest.mark.parametrize("kind", ["check", "validator"])
def test_broken_frames_end_it(tmp_path: Path, kind: str) -> None:
    with worker(tmp_path, kind) as peer:
        peer.connection.sendall(LENGTH.pack(1 << 31))
        assert peer.process.wait(30) == 1
        assert peer.process.stderr is not None
        assert b"worker_protocol" in peer.process.stderr.read()


def test_interrupts_are_for_the_service(tmp_path: Path) -> None:
    source = region_of(tmp_path, "a", ARRAY)
    with worker(tmp_path, "check") as peer:
        peer.do(Describe("d", "npy", source.array.path))
        peer.process.send_signal(signal.SIGINT)
        assert isinstance(peer.do(Describe("d", "npy", source.array.path)), Described)


def test_an_orphan_ends_at_once(tmp_path: Path) -> None:
    with worker(tmp_path, "check", parent=1) as peer:
        assert peer.process.wait(30) == 0
