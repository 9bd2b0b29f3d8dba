"""A worker process of the lab node: `python -I -m server_stub.node.worker --fd N --kind ...`.

Owns: the process edge: arguments, the socket to the node's service, signals, logging. Must not: do
an item by itself (`workers/` does), or outlive the service: the socket's end is its end.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import GoblinError, VerifyError
from server_stub.node.work import Begun, Compute, Recompute, Told, Work
from server_stub.node.workers.failures import failure
from server_stub.node.workers.frames import decode_work, encode_frame, receive_frame

__all__ = ["main"]

_PR_SET_PDEATHSIG: Final = 1

log = logging.getLogger("gpugoblin.node.worker")


class Answers:
    """The way back to the service; threads take turns."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, reply: Told) -> None:
        """Sends an answer; when the service is gone there is nobody to tell."""
        with self._lock:
            try:
                self._connection.sendall(encode_frame(reply))
            except (BrokenPipeError, ConnectionResetError):
                log.info("the service is gone; the answer to %s is lost", reply.work)


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="server_stub.node.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--kind", choices=("check", "validator", "local"), required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--blobs", type=Path, required=True)
    parser.add_argument("--level", choices=("full", "reduced", "none"), default="full")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-bytes", type=int, default=512 * 2**20)
    parser.add_argument("--cache-bytes", type=int, default=384 * 2**20)
    parser.add_argument("--reserve-bytes", type=int, default=64 * 2**20)
    return parser.parse_args(given)


def _die_with_parent(parent: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if parent and os.getppid() != parent:
        sys.exit(0)


def _serve_checks(connection: socket.socket, answers: Answers, store: BlobStore) -> None:
    """One item at a time, in order; the next one waits in the socket's own thread."""
    from server_stub.node.workers.checks import CheckDesk

    desk = CheckDesk(store)
    items: queue.SimpleQueue[Work | None] = queue.SimpleQueue()

    def work_off() -> None:
        while (item := items.get()) is not None:
            answers.send(Begun(item.work))
            try:
                reply = desk.do(item)
            except Exception as error:  # the edge of a thread: the item's answer says it
                reply = failure(item.work, error)
            answers.send(reply)

    thread = threading.Thread(target=work_off, name="check", daemon=True)
    thread.start()
    for item in _items(connection):
        items.put(item)
    items.put(None)
    thread.join()


def _serve_compute(
    connection: socket.socket, answers: Answers, store: BlobStore, given: argparse.Namespace
) -> None:
    from server_stub.node.workers.compute import ComputeLine
    from server_stub.node.workers.engine_room import RoomConfig

    config = RoomConfig(
        state_dir=given.state,
        level=given.level,
        threads=given.threads,
        memory_bytes=given.memory_bytes,
        cache_bytes=given.cache_bytes,
    )
    line = ComputeLine(config, store, answers.send, begin=lambda work: answers.send(Begun(work)))
    line.start()
    try:
        for item in _items(connection):
            if isinstance(item, (Compute, Recompute)):
                line.put(item)
            else:
                reason = f"a {given.kind} worker got a {type(item).__name__}"
                answers.send(failure(item.work, VerifyError("worker_protocol", reason=reason)))
    finally:
        line.close()


def _items(connection: socket.socket) -> Iterator[Work]:
    while (body := receive_frame(connection.recv)) is not None:
        yield decode_work(body)


def main(given: Sequence[str] | None = None) -> int:
    """Runs until the service closes the socket. Returns the exit status."""
    arguments = _arguments(sys.argv[1:] if given is None else given)
    logging.basicConfig(level=logging.INFO, format=f"{arguments.kind} worker: %(message)s")
    _die_with_parent(arguments.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service decides when it ends
    store = BlobStore(arguments.blobs, arguments.reserve_bytes)
    with socket.socket(fileno=arguments.fd) as connection:
        answers = Answers(connection)
        try:
            if arguments.kind == "check":
                _serve_checks(connection, answers, store)
            else:
                _serve_compute(connection, answers, store, arguments)
        except GoblinError as error:
            log.error("%s", error)
            return 1
        except ConnectionResetError:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
