"""The process between a lab node and its Ray cluster: `python -I -m ...ray_bridge --fd N ...`.

Owns: the connection to Ray, one `Hand` for each machine of the cluster that may be used, and the
carrying of blobs in bounded pieces. Must not: decide what is computed (`ray.RayExecutor` does).

It is a process of its own because Ray ends a process whose cluster is gone for a minute, and starts
threads and holds memory that the node's service should not. It ends when the socket does; when the
cluster does not answer it says why and ends, and the node starts another one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import GoblinError, NodeError
from server_stub.node.executors.ray_hand import PIECE_BYTES, Hand, inputs_of
from server_stub.node.executors.ray_words import (
    Answer,
    BridgeConfig,
    Do,
    Drop,
    Lost,
    Said,
    Seat,
    Seats,
    Trouble,
    decode_order,
    encode,
    trouble_of,
)
from server_stub.node.work import Checked, Computed, Reply, Work
from server_stub.node.workers.frames import (
    LENGTH,
    check_length,
    decode_reply,
    encode_frame,
    failed,
)

__all__ = ["main"]

LOOK_S: Final = 1.0
ANSWER_S: Final = 20.0
"""A cluster or a machine that says nothing for so long is gone."""
START_S: Final = 90.0
PING_S: Final = 5.0
REST_S: Final = (1.0, 30.0)
"""Between two tries with one machine: the first pause, and the longest."""
HAND_CALLS: Final = 32
_SHORT: Final = 20
_LONG: Final = 200

log = logging.getLogger("gpugoblin.node.ray")

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Held:
    """One machine of the cluster and its actor.

    Args:
        fell: done, with the reason, when an item has found the actor dead.
    """

    machine: str
    processors: int
    hand: Any = None
    seat: Seat | None = None
    life: asyncio.Task[None] | None = None
    rest_s: float = REST_S[0]
    not_before_s: float = 0.0
    items: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    carrying: asyncio.Lock = field(default_factory=asyncio.Lock)
    fell: asyncio.Future[str] | None = None


class Bridge:
    """Keeps the seats in line with the cluster, and brings items to them and answers back.

    Args:
        ray: the module.
        on: Ray's word for *on this machine and on no other*.
    """

    def __init__(
        self, config: BridgeConfig, ray: Any, on: Callable[[str], Any],
        writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        self._config = config
        self._ray = ray
        self._on = on
        self._writer = writer
        self._store = BlobStore(config.blob_root, config.reserve_bytes)
        self._held: dict[str, _Held] = {}
        self._marker = secrets.token_hex(32)
        self._actor = ray.remote(Hand)
        self._trouble = Trouble("", {})

    def connect(self) -> None:
        """Joins the cluster. Raises NodeError `ray_unreachable`."""
        marker = Path(self._config.marker)
        marker.unlink(missing_ok=True)
        with os.fdopen(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self._marker)
        try:
            self._ray.init(
                address=self._config.address, namespace=self._config.namespace,
                log_to_driver=False, logging_level=logging.WARNING, configure_logging=False,
            )  # fmt: skip
        except Exception as cause:  # Ray raises whatever its parts raise
            raise _unreachable(self._config, cause) from cause

    def say(self, message: Said) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(message))

    def _say_seats(self) -> None:
        seats = tuple(held.seat for held in self._held.values() if held.seat is not None)
        self.say(Seats(seats))

    def _say_trouble(self, trouble: Trouble) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.say(trouble)

    async def watch(self) -> None:
        """Follows the cluster until it does not answer. Raises NodeError `ray_unreachable`."""
        self._say_seats()
        while True:
            try:
                nodes = await _within(asyncio.to_thread(self._ray.nodes), ANSWER_S)
            except Exception as cause:  # as above, and TimeoutError
                raise _unreachable(self._config, cause) from cause
            found = {n["NodeID"]: n["Resources"] for n in nodes if n["Alive"]}
            usable = {name: r for name, r in found.items() if self._is_usable(r)}
            for machine in [name for name in self._held if name not in found]:
                await self._bury(self._held.pop(machine), "Ray says that the machine is gone")
            now_s = time.monotonic()
            for machine, resources in usable.items():
                held = self._held.setdefault(machine, _Held(machine, int(resources["CPU"])))
                if held.life is None and now_s >= held.not_before_s:
                    held.life = asyncio.create_task(self._live(held))
            if not usable:
                self._say_trouble(trouble_of(NodeError("ray_no_worker", address=_where(self))))
            await asyncio.sleep(LOOK_S)

    def _is_usable(self, resources: dict[str, float]) -> bool:
        wanted = self._config.resource
        return resources.get("CPU", 0.0) >= max(1, self._config.threads) and (
            not wanted or resources.get(wanted, 0.0) > 0
        )

    @property
    def config(self) -> BridgeConfig:
        return self._config

    # -- one machine ------------------------------------------------------------------------

    async def _live(self, held: _Held) -> None:
        """One life of an actor: started, asked whether it lives, buried."""
        reason = "the worker on it ended"
        try:
            await self._begin(held)
            held.fell = asyncio.get_running_loop().create_future()
            while True:
                await asyncio.wait([held.fell], timeout=PING_S)
                if held.fell.done():
                    reason = held.fell.result()
                    break
                await _within(held.hand.ping.remote(), ANSWER_S)
        except asyncio.CancelledError:
            raise
        except GoblinError as error:
            self._say_trouble(trouble_of(error))
            reason = str(error)
        except Exception as cause:  # whatever Ray raises: the actor is not there any more
            reason = _plain(cause)
            if held.seat is None:
                failure = NodeError("ray_worker_failed", machine=held.machine[:12], reason=reason)
                self._say_trouble(trouble_of(failure))
        held.life = None
        held.not_before_s = time.monotonic() + held.rest_s
        held.rest_s = min(2 * held.rest_s, REST_S[1])
        await self._bury(held, reason)

    async def _begin(self, held: _Held) -> None:
        threads = self._config.threads or held.processors
        wanted = {self._config.resource: 0.001} if self._config.resource else {}
        held.hand = self._actor.options(
            num_cpus=threads, resources=wanted, max_concurrency=HAND_CALLS, max_restarts=0,
            scheduling_strategy=self._on(held.machine),
        ).remote(
            msgspec.json.encode(self._config), held.machine, threads, self._marker
        )  # fmt: skip
        reply = await _within(held.hand.hello.remote(), START_S)
        told = msgspec.json.decode(reply)
        if "code" in told:
            raise NodeError(told["code"], **told["fields"])
        held.seat = msgspec.json.decode(reply, type=Seat)
        held.rest_s = REST_S[0]
        self._say_seats()
        self._say_trouble(Trouble("", {}))

    async def _bury(self, held: _Held, reason: str) -> None:
        """The machine is not used now; what it had goes back to the node."""
        was_seat, held.seat = held.seat, None
        if held.life is not None:
            held.life.cancel()
            held.life = None
        if was_seat is not None:
            log.warning("the machine %s is not used now: %s", held.machine[:12], reason)
            self._say_seats()  # first, so that nothing is given to it again
        for name, task in list(held.items.items()):
            task.cancel()
            self.say(Lost(name, reason[:2000]))
        held.items.clear()
        hand, held.hand = held.hand, None
        if hand is not None:
            with contextlib.suppress(Exception):  # it is gone already
                await _within(asyncio.to_thread(self._ray.kill, hand), ANSWER_S)

    # -- items ------------------------------------------------------------------------------

    def order(self, order: Do | Drop) -> None:
        """Takes what the node says."""
        if isinstance(order, Drop):
            for held in self._held.values():
                task = held.items.pop(order.work, None)
                if task is not None:
                    task.cancel()
            return
        found = self._held.get(order.seat)
        if found is None or found.seat is None:
            self.say(Lost(order.work.work, "the machine is not there any more"))
            return
        found.items[order.work.work] = asyncio.create_task(self._do(found, order.work))

    async def _do(self, held: _Held, work: Work) -> None:
        try:
            reply = await self._on_seat(held, work)
        except GoblinError as error:
            reply = failed(work.work, error)
        except asyncio.CancelledError:
            raise
        except Exception as cause:  # whatever Ray raises
            if _is_of_call(cause):
                if held.items.pop(work.work, None) is not None:
                    self.say(Lost(work.work, _plain(cause)))
            elif held.fell is not None and not held.fell.done():
                held.fell.set_result(_plain(cause))  # `_live` says what is lost
            return
        if held.items.pop(work.work, None) is not None:
            self.say(Answer(reply))

    async def _on_seat(self, held: _Held, work: Work) -> Reply:
        assert held.seat is not None  # noqa: S101 - `order` has looked
        named = inputs_of(work)
        hand = held.hand
        carries = not held.seat.shares_disk
        if carries:
            async with held.carrying:  # one blob at a time is on its way to a machine
                missing = await _within(hand.missing.remote(named), ANSWER_S)
                for blob in missing:
                    await self._send(hand, blob)
        try:
            body = await hand.run.remote(encode_frame(work)[LENGTH.size :])
            reply = decode_reply(body)
            made = _made(reply)
            if carries:
                for blob, nbytes in made:
                    await self._fetch(hand, blob, nbytes)
                named = {**named, **dict(made)}
        finally:
            if carries:
                hand.release.remote(list(named))
        return reply  # type: ignore[return-value] # a pool never answers `Begun`

    async def _send(self, hand: Any, blob: str) -> None:
        nbytes = self._store.nbytes(blob)
        with self._store.path(blob).open("rb", buffering=0) as file:
            for offset in range(0, max(1, nbytes), PIECE_BYTES):
                piece = await asyncio.to_thread(file.read, PIECE_BYTES)
                await _within(hand.put.remote(blob, nbytes, offset, piece), ANSWER_S + START_S)

    async def _fetch(self, hand: Any, blob: str, nbytes: int) -> None:
        """Into the node's own store, under the name that its bytes have."""
        with self._store.writer(nbytes) as writer:
            offset = 0
            while offset < nbytes:
                piece = await _within(hand.piece.remote(blob, offset), ANSWER_S)
                if not piece or offset + len(piece) > nbytes:
                    raise NodeError("ray_item_refused", work=blob[:16])
                await asyncio.to_thread(writer.write, piece)
                offset += len(piece)
            found = await asyncio.to_thread(writer.finish)
        if found.blob != blob:
            raise NodeError("ray_item_refused", work=blob[:16])

    async def close(self) -> None:
        """Lets go of every machine, for a while at most."""
        held, self._held = list(self._held.values()), {}
        for one in held:
            await self._bury(one, "the node stops")


def _made(reply: object) -> list[tuple[str, int]]:
    if isinstance(reply, Computed):
        return list(zip(reply.output_blobs, reply.output_nbytes, strict=True))
    if isinstance(reply, Checked) and reply.own_blobs:
        raise NodeError("ray_item_refused", work=reply.work)
    return []


def _where(bridge: Bridge) -> str:
    return bridge.config.address


def _is_of_call(cause: BaseException) -> bool:
    """Whether a method raised it, so that the actor lives."""
    return any(kind.__name__ == "RayTaskError" for kind in type(cause).__mro__)


def _plain(cause: BaseException) -> str:
    """One line of what Ray says: of a method's error the last, of Ray's own the first."""
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    if not lines:
        return type(cause).__name__
    return lines[-1 if _is_of_call(cause) or len(lines[0]) < _SHORT else 0][:_LONG]


def _unreachable(config: BridgeConfig, cause: BaseException) -> NodeError:
    reason = "it does not answer" if isinstance(cause, TimeoutError) else _plain(cause)
    return NodeError("ray_unreachable", address=config.address, reason=reason)


async def _within(ref: Awaitable[T], limit_s: float) -> T:
    """The value, or TimeoutError. Not `wait_for`: in Python 3.11 it may swallow a cancellation."""
    task = asyncio.ensure_future(_value(ref))
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        raise TimeoutError
    return task.result()


async def _value(ref: Awaitable[T]) -> T:
    return await ref


async def _listen(bridge: Bridge, reader: asyncio.StreamReader) -> None:
    while True:
        try:
            size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
            check_length(size)
            bridge.order(decode_order(await reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return


async def _serve(connection: socket.socket, config: BridgeConfig) -> int:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError as cause:
        error = NodeError("ray_missing", reason=cause)
        writer.write(encode(trouble_of(error)))
        await writer.drain()
        return 1

    def on(machine: str) -> Any:
        return NodeAffinitySchedulingStrategy(machine, soft=False)

    bridge = Bridge(config, ray, on, writer)
    status = 0
    jobs: list[asyncio.Task[None]] = []
    try:
        await _within(asyncio.to_thread(bridge.connect), START_S)
        jobs = [
            asyncio.create_task(_listen(bridge, reader)),
            asyncio.create_task(bridge.watch()),
        ]
        await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        for job in jobs:
            if job.done():
                job.result()
    except (NodeError, TimeoutError) as cause:
        known = cause if isinstance(cause, NodeError) else _unreachable(config, cause)
        bridge.say(trouble_of(known))
        status = 1
    finally:
        for job in jobs:
            job.cancel()
        with contextlib.suppress(Exception):
            await _within(bridge.close(), ANSWER_S)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()
    return status


def main(given: Sequence[str] | None = None) -> int:
    """Runs until the node closes the socket or the cluster does not answer."""
    parser = argparse.ArgumentParser(prog="server_stub.node.executors.ray_bridge")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--config", required=True)
    arguments = parser.parse_args(given)
    logging.basicConfig(level=logging.INFO, format="ray bridge: %(message)s")
    config = msgspec.json.decode(arguments.config, type=BridgeConfig)
    status = asyncio.run(_serve(socket.socket(fileno=arguments.fd), config))
    sys.stderr.flush()
    # Ray's own threads may wait for a cluster that is gone; there is nothing left to save.
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
