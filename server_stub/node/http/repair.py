"""The route by which `gpugoblin node fsck` tells a running node what it found.

Owns: who may: the node's own user and root, over the Unix socket, who could change every file of
the node anyway. Must not: look at a file.
"""

from __future__ import annotations

import os
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gpugoblin.errors import NodeError
from server_stub.node import remaking
from server_stub.node.http import replies, servers
from server_stub.node.node import Node
from server_stub.node.state import lost
from server_stub.node.state.words import Step

__all__ = ["MAX_BODY_BYTES", "Damage", "apply", "repair_routes"]

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
ROOT: Final = 0
Blob = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Damage(Struct, frozen=True, forbid_unknown_fields=True):
    """Blobs that are out of the store, and outputs (task, slot) that are not in their arrays."""

    blobs: Annotated[tuple[Blob, ...], Meta(max_length=100_000)] = ()
    results: Annotated[tuple[tuple[int, int], ...], Meta(max_length=100_000)] = ()


def apply(step: Step, damage: Damage) -> list[lost.Lost]:
    """Has everything made again that can be; see `state.lost`."""
    return lost.lose_blobs(step, damage.blobs) + lost.lose_results(step, damage.results)


def repair_routes(node: Node) -> list[BaseRoute]:
    """For the Unix socket alone."""

    async def repair(request: Request) -> Response:
        client = request.scope.get("client")
        if client is None or client[0] != servers.PEER or client[1] not in (ROOT, os.geteuid()):
            raise NodeError("not_permitted", scope="repair")
        body = await replies.read_body(request, MAX_BODY_BYTES)
        try:
            damage = msgspec.json.decode(body, type=Damage)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise NodeError(
                "parameter_invalid", name="body", value="", reason=str(cause)
            ) from cause
        found = await remaking.of_results(node, damage.results)
        found += await node.handle(lambda step: apply(step, damage))
        for each in found:
            if each.tasks:
                node.planner.forget(each.job)
        return Response(msgspec.json.encode(found), media_type=replies.JSON)

    return [Route("/v1/repair", repair, methods=["POST"])]
