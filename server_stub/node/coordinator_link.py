"""The node's line to the coordinator: demand, receipts, revocations.

Owns: what is sent and when it is tried again. A coordinator that is away changes nothing for local
jobs and running grants: receipts wait in the outbox, the last revocation list stays in force.
Nothing of a computation is in these messages. Must not: block the event loop (requests run in one
thread of their own).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.ids import LabId
from gpugoblin.units import MIB
from gpugoblin.wire.codec import decode, encode, message_type
from gpugoblin.wire.messages.contact import Demand, DemandReply, Revocations
from gpugoblin.wire.messages.receipt import Receipt, ReceiptBatch, ReceiptBatchReply
from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.remote import remote_error
from gpugoblin.wire.signing import sign_request
from gpugoblin.wire.tickets import verify_revocations
from server_stub.node.node import Node
from server_stub.node.state import receipts, trust
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx
from server_stub.node.tickets import Tickets

__all__ = ["CoordinatorLink", "SignedHttp", "backoff_s"]

T = TypeVar("T", bound=msgspec.Struct)

POLL_S: Final = 30.0
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
MEMORY_STEP_BYTES: Final = 256 * MIB
TIMEOUT_S: Final = (10.0, 30.0)

log = logging.getLogger("gpugoblin.node")


def backoff_s(attempt: int, rng: random.Random) -> float:
    """Exponential with full jitter, so that not all nodes return at the same moment."""
    return rng.uniform(0.0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempt, 20)))


class SignedHttp:
    """Signed requests to one address. Blocking: call it in a thread."""

    def __init__(
        self, address: str, certificate_sha256: str, key: Ed25519PrivateKey,
        wall_s: Callable[[], float],
    ) -> None:  # fmt: skip
        self._address = address.rstrip("/")
        self._key = key
        self._wall_s = wall_s
        self._session = requests.Session()
        self._session.trust_env = False
        if certificate_sha256:
            self._session.mount("https://", PinnedAdapter(certificate_sha256))
            self._session.verify = False  # the fingerprint is checked instead, by urllib3

    def close(self) -> None:
        self._session.close()

    def call(self, method: str, path: str, body: bytes, reply: type[T]) -> T:
        """Sends a request and decodes the reply.

        Raises:
            NodeError: `coordinator_away`; GoblinError: what the coordinator said.
        """
        status, data = self._exchange(method, path, body, message_type(reply).max_bytes)
        if status >= 300:
            raise remote_error(status, data) or NodeError(
                "coordinator_away", address=self._address,
                reason=f"status {status} without an explanation",
            )  # fmt: skip
        return decode(reply, data)

    def _exchange(self, method: str, path: str, body: bytes, limit: int) -> tuple[int, bytes]:
        """Apart from `call`: an error whose frame holds the response keeps its connection open."""
        headers = sign_request(self._key, method, path, body, self._wall_s())
        headers["Content-Type"] = "application/json"
        try:
            response = self._session.request(
                method, self._address + path, data=body or None, headers=headers,
                timeout=TIMEOUT_S, allow_redirects=False, stream=True,
            )  # fmt: skip
            with response:
                data = _read(response, limit)
        except (requests.RequestException, OSError) as cause:
            raise NodeError("coordinator_away", address=self._address, reason=cause) from cause
        return response.status_code, data


def _read(response: requests.Response, limit: int) -> bytes:
    data = bytearray()
    for piece in response.iter_content(64 * 1024):
        data += piece
        if len(data) > limit:
            break
    return bytes(data)


class CoordinatorLink:
    """Runs beside a node that belongs to a lab with a coordinator."""

    def __init__(
        self, node: Node, tickets: Tickets, http: SignedHttp, poll_s: float = POLL_S
    ) -> None:
        self._node = node
        self._tickets = tickets
        self._http = http
        self._poll_s = poll_s
        self._lab = LabId(node.settings.lab)
        self._key: bytes | None = None
        self._task: asyncio.Task[None] | None = None
        self.last_error = ""

    async def start(self) -> None:
        """Begins; a key that was learned in an earlier life holds at once."""
        row = await self._node.store.read(
            lambda tx: tx.one("select value from meta where key = 'coordinator_key'")
        )
        if row is not None:
            self._learn(bytes.fromhex(row[0]))
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._http.close()

    def _learn(self, key: bytes) -> None:
        pinned = self._node.settings.coordinator_key
        if pinned and key.hex() != pinned:
            raise NodeError("coordinator_key_differs", found=key.hex()[:16], pinned=pinned[:16])
        self._key = key
        self._tickets.learn(key)

    async def _run(self) -> None:
        attempt = 0
        while True:
            try:
                asked_s = await self.once()
                attempt, self.last_error = 0, ""
                pause_s = min(self._poll_s, asked_s) * self._node.rng.uniform(0.9, 1.1)
            except GoblinError as error:
                self.last_error = str(error)
                log.warning("coordinator: %s", error)
                pause_s = min(self._poll_s, backoff_s(attempt, self._node.rng))
                attempt += 1
            except Exception:  # the edge of a background loop: the log is the only reader
                log.exception("the line to the coordinator failed; it goes on")
                pause_s = self._poll_s
            await asyncio.sleep(pause_s)

    async def once(self) -> float:
        """Demand, the revocation list, then receipts until none is left. Raises GoblinError.

        Returns:
            seconds after which the coordinator would like to hear from the node again.
        """
        wanted, memory = await self._node.store.read(_demand)
        message = Demand(self._lab, wanted, memory)
        answer = await self._call("POST", "/v1/node/demand", message, DemandReply)
        if answer.coordinator_key != self._key:
            await self._node.handle(lambda step: _keep_key(step, answer.coordinator_key))
            self._learn(answer.coordinator_key)
        await self._poll_revocations()
        while await self._send_receipts():
            pass
        return answer.next_poll_s

    async def _call(
        self, method: str, path: str, message: msgspec.Struct | None, reply: type[T]
    ) -> T:
        body = b"" if message is None else encode(message)
        return await asyncio.to_thread(self._http.call, method, path, body, reply)

    async def _poll_revocations(self) -> None:
        path = f"/v1/node/revocations?lab={self._lab}"
        found = await self._call("GET", path, None, Revocations)
        if self._key is None:
            return
        listed = verify_revocations(
            found.ticket, keys=(self._key,), audience=self._lab,
            now_s=self._node.clock.wall_s(),
        )  # fmt: skip
        await self._node.handle(lambda step: trust.revoke(step, listed.number, listed.revoked))
        self._node.revoked = await self._node.store.read(trust.revoked)

    async def _send_receipts(self) -> bool:
        waiting = await self._node.store.read(receipts.waiting)
        if not waiting:
            return False
        answer = await self._call(
            "POST", "/v1/node/receipts", ReceiptBatch(self._lab, waiting), ReceiptBatchReply
        )
        await self._node.handle(lambda step: _answered(step, waiting, answer))
        return True


def _answered(step: Step, batch: tuple[Receipt, ...], answer: ReceiptBatchReply) -> None:
    receipts.sent(step, (receipt.receipt for receipt in batch))
    for refusal in answer.refused:
        receipts.refused(step, refusal.receipt, refusal.code)


def _keep_key(step: Step, key: bytes) -> None:
    step.tx.change(
        "insert into meta values('coordinator_key', ?) on conflict(key) do update set"
        " value = excluded.value",
        (key.hex(),),
    )


def _demand(tx: Tx) -> tuple[int, int]:
    """Cards that could work now, and the memory that they should have, in whole steps.

    Rounded down: the exact need of a task would tell its shape, and a card that turns out to be
    too small is given no lease.
    """
    row = tx.one(
        "select coalesce(sum(tasks - used), 0) from job where state = 'running'"
        " and executor = 'grid'"
    )
    memory = tx.one(
        "select coalesce(min(memory_bound_bytes), 0) from task where executor = 'grid'"
        " and state in ('ready', 'waiting', 'leased')"
    )
    wanted = 0 if row is None else min(int(row[0]), 1_000_000)
    return wanted, 0 if memory is None else int(memory[0]) // MEMORY_STEP_BYTES * MEMORY_STEP_BYTES
