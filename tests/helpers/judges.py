"""A validator for tests: the real program over the real door, with a hand that computes in place.

Owns: `Judge`, a hand whose blobs lie in a store of its own, and `judging`, which runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.wire.signing import public_key_bytes
from server_stub.node.state import validators
from server_stub.node.state.validators import Validator
from server_stub.node.validating.machine import Machine, NodeDoor
from server_stub.node.work import Checked, Work
from server_stub.node.workers.frames import LENGTH, decode_work, encode_frame
from tests.helpers.lab import Lab
from tests.helpers.node import Workers

__all__ = ["Judge", "judging"]


class Judge:
    """A hand. `blind`: it accepts whatever it is shown. `harsh`: it accepts nothing."""

    def __init__(self, root: Path) -> None:
        self.workers = Workers(root)
        self.store = self.workers.store
        self.items: list[Work] = []
        self.blind = False
        self.harsh = False
        self.hold: asyncio.Event | None = None

    async def missing(self, named: dict[str, int]) -> list[str]:
        return [blob for blob in named if not self.store.has(blob)]

    async def put(self, blob: str, nbytes: int, offset: int, piece: bytes) -> bool:
        assert offset == 0, "blobs of tests are small"
        assert str(self.store.put(piece)) == blob
        return len(piece) == nbytes

    async def run(self, frame: bytes) -> bytes:
        item = decode_work(frame)
        self.items.append(item)
        if self.hold is not None:
            await self.hold.wait()
        reply = await self.workers.run(item)
        if (self.blind or self.harsh) and isinstance(reply, Checked):
            reply = msgspec.structs.replace(
                reply, accepted=self.blind, code="" if self.blind else "result_mismatch",
                tolerance=((1.0,),),
            )  # fmt: skip
        return encode_frame(reply)[LENGTH.size :]

    async def release(self, blobs: list[str]) -> None:
        pass


@contextlib.contextmanager
def judging(lab: Lab, judge: Judge, name: str = "partner", **known: object) -> Iterator[Machine]:
    """Makes a validator known to a node, and runs it in a thread until the end.

    Args:
        known: what the administrator says of it (`Validator`).
    """
    key = Ed25519PrivateKey.generate()
    validator = msgspec.structs.replace(Validator(name, public_key_bytes(key).hex()), **known)
    lab.node.call(lab.node.node.handle(lambda step: validators.add(step.tx, validator)))
    service = lab.node.service
    assert service.tls is not None
    address, certificate = f"https://127.0.0.1:{service.port}", service.tls.sha256
    machine = Machine(lambda: NodeDoor(address, certificate, key), judge)
    loop = asyncio.new_event_loop()
    work = loop.create_task(machine.run())

    def serve() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(work)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=serve, name="validator")
    thread.start()
    try:
        yield machine
    finally:
        loop.call_soon_threadsafe(work.cancel)
        thread.join()
