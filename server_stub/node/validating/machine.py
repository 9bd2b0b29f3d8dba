"""The program of a validator: asks a node for items, fetches their inputs, judges, answers.

Owns: the signed requests to the node, and the loops. What judges is the same hand that works on Ray
machines (`executors.ray_hand`), in a pool of workers behind the node's own walls. Must not: keep
anything but the blobs of late, or decide: the node does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from importlib.metadata import version
from typing import Final, Protocol

import msgspec
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.remote import remote_error
from gpugoblin.wire.signing import sign_request
from server_stub.node.executors.ray_hand import inputs_of
from server_stub.node.validating.desk import AT_ONCE
from server_stub.node.validating.words import (
    ANSWER_PATH,
    BLOBS_PATH,
    HOLD_S,
    LOST_S,
    PIECE_BYTES,
    TAKE_PATH,
    Take,
)
from server_stub.node.work import Work
from server_stub.node.workers.frames import (
    LENGTH,
    MAX_FRAME_BYTES,
    decode_work,
    encode_frame,
    failed,
)

__all__ = ["Door", "Machine", "NodeDoor", "Worker"]

TIMEOUT_S: Final = (10.0, HOLD_S + 20.0)
PAUSE_S: Final = (1.0, 60.0)
"""After a node that did not answer: the first pause, and the longest."""

REST_S: Final = 0.5
"""Between two questions where there was no item."""

HEARD_S: Final = LOST_S / 4

log = logging.getLogger("gpugoblin.validator")


class Worker(Protocol):
    """What a validator asks of its hand (`executors.ray_hand.Hand`)."""

    async def missing(self, named: dict[str, int]) -> list[str]: ...

    async def put(self, blob: str, nbytes: int, offset: int, piece: bytes) -> bool: ...

    async def run(self, frame: bytes) -> bytes: ...

    async def release(self, blobs: list[str]) -> None: ...


class Door(Protocol):
    """The way to the node. Blocking: it is called in a thread."""

    def call(self, method: str, path: str, body: bytes, limit: int) -> bytes:
        """The body of an answer, at most `limit` bytes. Raises GoblinError."""
        ...

    def close(self) -> None:
        """Ends its connections."""
        ...


class NodeDoor:
    """Signed requests to one node. For one thread at a time.

    Args:
        certificate_sha256: of the node's certificate; empty: an authority of the system vouches.
    """

    def __init__(self, address: str, certificate_sha256: str, key: Ed25519PrivateKey) -> None:
        self._address = address.rstrip("/")
        self._key = key
        self._session = requests.Session()
        self._session.trust_env = False
        if certificate_sha256:
            self._session.mount("https://", PinnedAdapter(certificate_sha256))
            self._session.verify = False  # the fingerprint is checked instead, by urllib3

    def call(self, method: str, path: str, body: bytes, limit: int) -> bytes:
        """Raises NodeError `node_away`, and what the node said."""
        status, data = self._exchange(method, path, body, limit)
        if status >= 300:
            raise remote_error(status, data) or self._away(f"status {status} without a word")
        return data

    def _exchange(self, method: str, path: str, body: bytes, limit: int) -> tuple[int, bytes]:
        """Apart from `call`: an error whose frame holds the response keeps its connection open."""
        headers = sign_request(self._key, method, path, body, time.time())
        data = bytearray()
        try:
            response = self._session.request(
                method, self._address + path, data=body or None, headers=headers,
                timeout=TIMEOUT_S, allow_redirects=False, stream=True,
            )  # fmt: skip
            with response:
                for piece in response.iter_content(256 * 1024):
                    data += piece
                    if len(data) > limit:
                        raise self._away(f"an answer of more than {limit} bytes")
        except (requests.RequestException, OSError) as cause:
            raise self._away(str(cause)) from cause
        return response.status_code, bytes(data)

    def close(self) -> None:
        self._session.close()

    def _away(self, reason: str) -> NodeError:
        return NodeError("node_away", address=self._address, reason=reason[:500])


class Machine:
    """One validator at work. `run` until it is cancelled.

    Args:
        door: makes a way to the node for one loop.
        at_once: items at one time.
    """

    def __init__(
        self, door: Callable[[], Door], worker: Worker, *, at_once: int = AT_ONCE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._door = door
        self._worker = worker
        self._at_once = at_once
        self._sleep = sleep
        self._said = ""
        self._has: set[str] = set()
        self._fetching = asyncio.Lock()
        self.done = 0

    async def run(self) -> None:
        """Judges until it is cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._be_heard())
            for _ in range(self._at_once):
                loops.create_task(self._work())

    async def _be_heard(self) -> None:
        """While all loops are busy, nobody else asks the node for anything."""
        with closing(self._door()) as door:
            while True:
                await self._sleep(HEARD_S)
                try:
                    await self._call(door, "POST", TAKE_PATH, self._take(want=False))
                except GoblinError as error:
                    log.debug("%s", error)  # the loops say it

    async def _work(self) -> None:
        pause_s = PAUSE_S[0]
        with closing(self._door()) as door:
            while True:
                try:
                    frame = await self._call(door, "POST", TAKE_PATH, self._take(want=True))
                    self._say("")
                    if frame:
                        await self._judge(door, frame)
                    else:  # a node that is about to end answers at once
                        await self._sleep(REST_S)
                    pause_s = PAUSE_S[0]
                except GoblinError as error:
                    self._say(f"{error.what} {error.next_step} [{error.code}]")
                    await self._sleep(pause_s)
                    pause_s = min(2 * pause_s, PAUSE_S[1])

    def _say(self, trouble: str) -> None:
        """Each trouble once."""
        if trouble != self._said:
            self._said = trouble
            log.warning("%s", trouble or "the node answers")

    async def _call(
        self, door: Door, method: str, path: str, body: bytes, limit: int = MAX_FRAME_BYTES
    ) -> bytes:
        return await asyncio.to_thread(door.call, method, path, body, limit)

    async def _judge(self, door: Door, frame: bytes) -> None:
        item = decode_work(frame)
        self._has.add(item.work)
        try:
            try:
                reply = await self._reply(door, item)
            except GoblinError as error:  # the node does it itself, at once
                answer = encode_frame(failed(item.work, error))[LENGTH.size :]
                await self._call(door, "POST", ANSWER_PATH, answer)
                raise
            await self._call(door, "POST", ANSWER_PATH, reply)
        finally:
            self._has.discard(item.work)
        self.done += 1

    async def _reply(self, door: Door, item: Work) -> bytes:
        named = inputs_of(item)
        async with self._fetching:  # items share blobs
            missing = await self._worker.missing(named)
            try:
                for blob in missing:
                    await self._fetch(door, blob, named[blob])
            except BaseException:
                await self._worker.release(list(named))
                raise
        try:
            return await self._worker.run(encode_frame(item)[LENGTH.size :])
        finally:
            await self._worker.release(list(named))

    async def _fetch(self, door: Door, blob: str, nbytes: int) -> None:
        """A blob in pieces; the hand checks it against its name."""
        offset, whole = 0, False
        while not whole:
            path = f"{BLOBS_PATH}/{blob}?offset={offset}"
            piece = await self._call(door, "GET", path, b"", PIECE_BYTES)
            if (not piece and nbytes) or offset + len(piece) > nbytes:
                raise NodeError("node_away", address=blob[:16], reason="a blob of another size")
            whole = await self._worker.put(blob, nbytes, offset, piece)
            offset += len(piece)

    def _take(self, *, want: bool) -> bytes:
        has = tuple(sorted(self._has))
        return msgspec.json.encode(Take(version("gpugoblin"), catalog_hash(), want, has))
