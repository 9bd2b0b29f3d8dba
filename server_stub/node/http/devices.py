"""The devices' routes: exchange, blobs, results. Every request is signed and names a grant.

Owns: who a device is: the grant of the coordinator (verified once a ticket) and the signature of
each request by the grant's key. A replayed exchange is found by its nonce, which is kept in the
transaction of the exchange; the other requests do the same thing however often they are sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gpugoblin.blobs.chunk import CHUNK_BYTES
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import GoblinError, NodeError, StoreError, WireError
from gpugoblin.ids import BlobHash
from gpugoblin.units import MIB
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.messages.blob import Manifest, UploadState
from gpugoblin.wire.messages.lease import Exchange, ExchangeReply, Uploaded
from gpugoblin.wire.signing import HEADERS, KEY_HEADER, SignedBy, check_request
from server_stub.node.http import replies
from server_stub.node.node import Node
from server_stub.node.state import blobs as references
from server_stub.node.state import leases
from server_stub.node.state.words import Party
from server_stub.node.store.protocol import Tx
from server_stub.node.tickets import Tickets

__all__ = ["Devices"]

MAX_PIECE_BYTES: Final = 2 * CHUNK_BYTES
HASH_IN_THREAD_BYTES: Final = 256 * 1024
READ_BYTES: Final = MIB
MAX_EXCHANGE_BYTES: Final = 256 * 1024
EXCHANGE_PATH: Final = "/v1/lease/exchange"
GRANT_HEADER: Final = "goblin-grant"
TICKET_HEADER: Final = "goblin-ticket"
_READ: Final = {
    name.lower().encode(): name.lower()
    for name in (*HEADERS, GRANT_HEADER, "content-length", "transfer-encoding")
}
"""What an exchange reads of its head, as the server writes the names."""


class Devices:
    """The routes of one node for devices."""

    def __init__(self, node: Node, tickets: Tickets) -> None:
        self._node = node
        self._tickets = tickets
        # A lock is here for as long as somebody holds it or waits for it.
        self._uploads: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def routes(self) -> list[BaseRoute]:
        """Every route, for the door with TLS."""
        return [
            Route("/v1/lease/uploaded", self._uploaded, methods=["POST"]),
            Route("/v1/blobs/{blob}/manifest", self._manifest, methods=["GET"]),
            Route("/v1/blobs/{blob}", self._blob, methods=["GET"]),
            Route("/v1/results/{lease}/{slot:int}", self._put_result, methods=["PUT"]),
        ]

    def front(self, app: ASGIApp) -> ASGIApp:
        """The exchange, which is what a busy node does most, before the routes of `app`."""
        exchange = _Exchange(self)

        async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"] == EXCHANGE_PATH:
                await exchange(scope, receive, send)
            else:
                await app(scope, receive, send)

        return dispatch

    async def party(
        self, headers: Mapping[str, str], method: str, path: str, body: bytes
    ) -> tuple[Party, SignedBy]:
        """Who sent a request.

        Raises:
            NodeError: `grant_missing`, `grant_revoked`, `no_volunteers`.
            WireError: `signature_*`, `ticket_*`.
        """
        now_s = self._node.clock.wall_s()
        if len(body) > HASH_IN_THREAD_BYTES:
            signed = await asyncio.to_thread(check_request, headers, method, path, body, now_s)
        else:
            signed = check_request(headers, method, path, body, now_s)
        ticket = headers.get(GRANT_HEADER)
        if ticket is None:
            raise NodeError("grant_missing")
        party = self._tickets.party(ticket, now_s, signed.public_key)
        if party.grant in self._node.revoked:
            raise NodeError("grant_revoked", grant=party.grant)
        return party, signed

    async def exchange(
        self, party: Party, signed: SignedBy, message: Exchange, receive: Receive
    ) -> ExchangeReply:
        """Commits, gives back, leases; an idle device waits a little for work.

        Args:
            receive: gives a message when the device has hung up, and none before.
        """
        grid = self._node.grid
        if self._node.draining:
            message = msgspec.structs.replace(message, want=0)
        once = (signed.public_key, signed.nonce, signed.until_s)
        reply = await grid.exchange(party, message, once)
        if reply is None:
            raise WireError("signature_replayed")
        idle = message.want and not (message.holding or message.commits or message.abandons)
        hold_s = self._node.settings.device_hold_s
        held = idle and hold_s > 0 and not reply.leases
        if held and await _unless_gone(grid.wait_for_work(hold_s), receive):
            again = await grid.exchange(party, Exchange(want=message.want))
            reply = reply if again is None else again
        if not reply.leases:
            return reply
        now_s = self._node.clock.wall_s()
        ticket = self._tickets.for_leases(reply.leases, party, now_s, signed.public_key)
        leased = tuple(msgspec.structs.replace(each, blob_ticket=ticket) for each in reply.leases)
        return msgspec.structs.replace(reply, leases=leased)

    async def _signed(self, request: Request, limit: int) -> tuple[Party, bytes]:
        body = await replies.read_body(request, limit)
        party, _ = await self.party(request.headers, request.method, _target(request.scope), body)
        return party, body

    def _require_grant(self, request: Request) -> None:
        """Large bodies are read from holders of a grant only; that they sign it comes after."""
        ticket = request.headers.get(GRANT_HEADER)
        if ticket is None:
            raise NodeError("grant_missing")
        try:
            key = bytes.fromhex(request.headers.get(KEY_HEADER, ""))
        except ValueError as cause:
            raise WireError("signature_malformed", header=KEY_HEADER) from cause
        self._tickets.party(ticket, self._node.clock.wall_s(), key)

    async def _uploaded(self, request: Request) -> Response:
        party, body = await self._signed(request, 4096)
        message = decode(Uploaded, body)
        blobs = self._node.blobs
        reply = await self._node.grid.uploaded(
            party, message, lambda named: [_is_here(blobs, *each) for each in named]
        )
        return replies.reply(reply)

    async def _put_result(self, request: Request) -> Response:
        """A piece of an output: bytes after the stored ones; the last piece names the blob."""
        self._require_grant(request)
        party, body = await self._signed(request, MAX_PIECE_BYTES)
        lease, slot = request.path_params["lease"], request.path_params["slot"]
        offset = replies.integer(request, "offset", 0, 0, 1 << 62)
        key, store = f"{lease}-{slot}", self._node.store
        async with self._uploads.setdefault(key, asyncio.Lock()):
            blob, nbytes = await store.read(lambda tx: _awaited(tx, party, lease, slot))
            try:
                return replies.reply(
                    await asyncio.to_thread(
                        _store, self._node.blobs, key, blob, nbytes, offset, body
                    )
                )
            finally:
                # Its end may also be what made the writing fail; then the end is what is told.
                await self._still_awaited(party, lease, slot, blob)

    async def _still_awaited(self, party: Party, lease: str, slot: int, blob: str) -> None:
        try:
            await self._node.store.read(lambda tx: _awaited(tx, party, lease, slot))
        except NodeError:
            await self._take_back(f"{lease}-{slot}", blob)
            raise

    async def _take_back(self, key: str, blob: str) -> None:
        """The lease ended while a piece was written: nobody else would delete what it left."""
        await asyncio.to_thread(self._node.blobs.discard_upload, key)
        await self._node.handle(lambda step: references.drop_unnamed(step, blob))

    async def _reader(self, request: Request) -> str:
        """The blob of a request, if a lease under its ticket's grant has it as an input."""
        body = await replies.read_body(request, 0)
        party, signed = await self.party(
            request.headers, request.method, _target(request.scope), body
        )
        text = request.headers.get(TICKET_HEADER)
        if text is None:
            raise WireError("signature_missing", header="Goblin-Ticket")
        ticket = self._tickets.blob_ticket(text, self._node.clock.wall_s(), signed.public_key)
        blob = request.path_params["blob"]
        if not await self._node.store.read(lambda tx: _may_read(tx, party, ticket.grant, blob)):
            raise NodeError("blob_not_leased")
        return str(blob)

    async def _manifest(self, request: Request) -> Response:
        blob = await self._reader(request)
        found = await asyncio.to_thread(self._node.blobs.manifest, blob)
        return replies.reply(Manifest(BlobHash(blob), found.nbytes, tuple(found.chunks)))

    async def _blob(self, request: Request) -> Response:
        blob = await self._reader(request)
        size = await asyncio.to_thread(self._node.blobs.nbytes, blob)
        start, stop = _range(request.headers.get("range"), size)
        descriptor = os.open(self._node.blobs.path(blob), os.O_RDONLY | os.O_CLOEXEC)
        headers = {"Content-Length": str(stop - start), "Accept-Ranges": "bytes"}
        status = 200
        if request.headers.get("range") is not None:
            status = 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        return StreamingResponse(
            _read(descriptor, start, stop), status, headers, "application/octet-stream"
        )


class _Exchange:
    """The exchange as a bare ASGI endpoint."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != "POST":
                raise NodeError("method_not_allowed", method=scope["method"], path=scope["path"])
            headers = {_READ[name]: value.decode("latin-1")
                       for name, value in scope["headers"] if name in _READ}  # fmt: skip
            replies.body_bytes(headers, MAX_EXCHANGE_BYTES)
            body = await replies.whole_body(receive, MAX_EXCHANGE_BYTES)
            party, signed = await self._devices.party(headers, "POST", _target(scope), body)
            reply = await self._devices.exchange(party, signed, decode(Exchange, body), receive)
            data = encode(reply)
        except GoblinError as error:
            await replies.error_response(error)(scope, receive, send)
            return
        except Exception as error:  # the edge of a request: the log has it all
            answer = await replies.on_surprise(Request(scope, receive), error)
            await answer(scope, receive, send)
            return
        length = str(len(data)).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": data})


async def _unless_gone(work: Coroutine[Any, Any, bool], receive: Receive) -> bool:
    """What `work` says; False as soon as the device has hung up, for nobody would hear of it."""
    waiting, gone = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        return not gone.done() and waiting.result()
    finally:
        waiting.cancel()
        gone.cancel()
        await asyncio.gather(waiting, gone, return_exceptions=True)


def _target(scope: Scope) -> str:
    """Path and query as they were sent, which is what is signed."""
    path: str = scope["raw_path"].decode("latin-1")
    query: str = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _awaited(tx: Tx, party: Party, lease: str, slot: int) -> tuple[str, int]:
    """The blob that a committed lease named for a slot. Raises NodeError `unknown_lease`."""
    row = leases.load(tx, lease)
    if row is None or row.device != party.device or row.state not in ("committed", "uploaded"):
        raise NodeError("unknown_lease", lease=lease)
    named = leases.votes(tx, lease)
    if slot >= len(named):
        raise NodeError("unknown_lease", lease=lease)
    return named[slot]


def _is_here(store: BlobStore, blob: str, nbytes: int) -> bool:
    """Whether a blob of that name and size is complete: a device may name any other one."""
    return store.has(blob) and store.nbytes(blob) == nbytes


def _store(
    store: BlobStore, key: str, blob: str, nbytes: int, offset: int, body: bytes
) -> UploadState:
    """Appends a piece; a piece that is here already is no error. Runs in a thread."""
    if _is_here(store, blob, nbytes):
        store.discard_upload(key)
        return UploadState(nbytes, True)
    with store.upload(key, nbytes) as upload:
        stored = upload.progress().stored_bytes
        if offset > stored:
            return UploadState(stored, False)
        fresh = body[stored - offset :]
        if fresh:
            # Synced once, when all is here: what a crash takes before is sent again.
            stored = upload.write(stored, fresh, sync=False).stored_bytes
    if stored < nbytes:
        return UploadState(stored, False)
    try:
        if store.finish_upload(key, nbytes, blob).nbytes != nbytes:
            return UploadState(0, False)
    except StoreError as error:
        if error.code == "upload_mismatch":
            # Thrown away: the device starts this output again.
            return UploadState(0, False)
        raise
    return UploadState(nbytes, True)


def _may_read(tx: Tx, party: Party, grant: str, blob: str) -> bool:
    """Whether a lease that the device works on under that grant has the blob as an input."""
    found = tx.one(
        "select 1 from lease l join task_input i on i.task = l.task where l.grant_id = ?"
        # Both words: the index `lease_of_grant` is found by the first.
        " and l.state in ('issued', 'committed') and l.state = 'issued' and l.device = ?"
        " and i.blob = ? limit 1",
        (grant, party.device, blob),
    )
    return found is not None


def _range(text: str | None, size: int) -> tuple[int, int]:
    """`bytes=a-b` -> (a, b + 1), inside the blob. Raises NodeError `parameter_invalid`."""
    if text is None:
        return 0, size
    unit, _, span = text.partition("=")
    first, dash, last = span.partition("-")
    # Headers are Latin-1, where a superscript two counts as a digit, too.
    valid = unit == "bytes" and dash and span.isascii() and first.isdigit() and len(first) < 20
    valid = valid and (last == "" or (last.isdigit() and len(last) < 20))
    start = int(first) if valid else -1
    stop = size if last == "" else min(size, int(last) + 1) if valid else -1
    if not valid or not 0 <= start < stop:
        raise NodeError(
            "parameter_invalid", name="Range", value=text[:40], reason="no range of the blob"
        )
    return start, stop


async def _read(descriptor: int, start: int, stop: int) -> AsyncIterator[bytes]:
    try:
        for offset in range(start, stop, READ_BYTES):
            size = min(READ_BYTES, stop - offset)
            yield await asyncio.to_thread(os.pread, descriptor, size, offset)
    finally:
        os.close(descriptor)
