"""The routes of validators, on the door with TLS. Every request is signed by a validator's key.

Owns: who a validator is, and that it reads the inputs of its own items only. Must not: judge.
"""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gpugoblin.errors import NodeError, VerifyError, WireError
from gpugoblin.wire.signing import KEY_HEADER, check_request
from server_stub.node.http import replies
from server_stub.node.node import Node
from server_stub.node.state import validators
from server_stub.node.state.validators import Validator
from server_stub.node.validating.desk import Desk
from server_stub.node.validating.words import (
    ANSWER_PATH,
    BLOBS_PATH,
    MAX_TAKE_BYTES,
    PIECE_BYTES,
    TAKE_PATH,
    decode_take,
)
from server_stub.node.work import Begun
from server_stub.node.workers.frames import LENGTH, MAX_FRAME_BYTES, decode_reply, encode_frame

__all__ = ["validator_routes"]

OCTETS = "application/octet-stream"


def validator_routes(node: Node, desk: Desk) -> list[BaseRoute]:
    """`take`, `blobs` and `answer`."""
    seen: dict[tuple[bytes, bytes], float] = {}

    def is_new(key: bytes, nonce: bytes, until_s: float, now_s: float) -> bool:
        while seen and next(iter(seen.values())) < now_s:  # about in the order of their ends
            del seen[next(iter(seen))]
        if (key, nonce) in seen:
            return False
        seen[key, nonce] = until_s
        return True

    async def signed(request: Request, limit: int) -> tuple[Validator, bytes]:
        """Raises WireError `signature_*`; NodeError `validator_unknown`, `validator_caught`.

        A stranger is refused before the body is read; who was removed meanwhile, after it.
        """
        claimed = request.headers.get(KEY_HEADER)
        if claimed is not None:
            await node.store.read(lambda tx: validators.by_key(tx, claimed))
        body = await replies.read_body(request, limit)
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        now_s = node.clock.wall_s()
        by = check_request(request.headers, request.method, target, body, now_s)
        key = by.public_key.hex()
        validator = await node.store.read(lambda tx: validators.by_key(tx, key))
        if not is_new(by.public_key, by.nonce, by.until_s, now_s):
            raise WireError("signature_replayed")
        return validator, body

    async def take(request: Request) -> Response:
        validator, body = await signed(request, MAX_TAKE_BYTES)
        message = decode_take(body)
        if (message.version, message.catalog_hash) != (
            version("gpugoblin"), node.rules.catalog_hash,
        ):  # fmt: skip
            raise NodeError("validator_differs", found=message.version, wanted=version("gpugoblin"))
        item = await desk.take(validator, want=message.want, has=message.has)
        if item is None:
            return Response(status_code=204)
        return Response(encode_frame(item)[LENGTH.size :], media_type=OCTETS)

    async def answer(request: Request) -> Response:
        validator, body = await signed(request, MAX_FRAME_BYTES)
        try:
            reply = decode_reply(body)
        except VerifyError as cause:
            raise NodeError(
                "parameter_invalid", name="body", value="", reason=str(cause)
            ) from cause
        if not isinstance(reply, Begun):
            desk.answer(validator.name, reply)
        return Response(status_code=204)

    async def blobs(request: Request) -> Response:
        validator, _ = await signed(request, 0)
        blob = request.path_params["blob"]
        offset = replies.integer(request, "offset", 0, 0, 1 << 62)
        if not desk.may_read(validator.name, blob):
            raise NodeError("blob_not_leased")
        return Response(await asyncio.to_thread(read, blob, offset), media_type=OCTETS)

    def read(blob: str, offset: int) -> bytes:
        try:
            descriptor = os.open(node.blobs.path(blob), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as cause:
            raise NodeError("blob_not_leased") from cause
        try:
            return os.pread(descriptor, PIECE_BYTES, offset)
        finally:
            os.close(descriptor)

    return [
        Route(TAKE_PATH, take, methods=["POST"]),
        Route(ANSWER_PATH, answer, methods=["POST"]),
        Route(f"{BLOBS_PATH}/{{blob}}", blobs, methods=["GET"]),
    ]
