"""`gpugoblin node fsck | gc`: every byte against its hash, and what nobody needs any more."""

from __future__ import annotations

import argparse
import http.client
import random
import socket
import time
from collections import Counter
from typing import Final

import msgspec

from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.errors import NodeError
from gpugoblin.units import format_bytes
from gpugoblin.wire.remote import remote_error
from server_stub.node import presence
from server_stub.node.commands.common import (
    ILL,
    Commands,
    add,
    changing,
    database_errors,
    settings_of,
)
from server_stub.node.keeping import check, collect
from server_stub.node.settings import NodeSettings
from server_stub.node.state import retention

__all__ = ["register"]

TIMEOUT_S: Final = 120.0
MAX_REPLY_BYTES: Final = 16 * 1024 * 1024


def register(commands: Commands) -> None:
    checking = add(commands, "fsck", _fsck, "read every byte that is kept, and mend what is lost")
    checking.add_argument("--dry-run", action="store_true", help="report, and change nothing")
    collecting = add(commands, "gc", _gc, "show what nobody needs any more")
    collecting.add_argument("--delete", action="store_true", help="delete it")
    text = "results that were submitted as a cache, of whatever age and size, too"
    collecting.add_argument("--cache", action="store_true", help=text)


def _fsck(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    with database_errors(settings):
        presence.require_current(settings)
        found = check.check(settings)
    print(f"looked at      {found.looked_at} blobs and parts of results,"
          f" {format_bytes(found.nbytes)}")  # fmt: skip
    if not (found.blobs or found.results):
        print("all is as it was stored")
        return 0
    for name, code in sorted(found.blobs.items()):
        print(f"damaged        blob {name} ({code})")
    for (task, slot), path in sorted(found.results.items()):
        print(f"damaged        {path} (task {task}, output {slot})")
    if arguments.dry_run:
        print("nothing was changed; without --dry-run it is made again where that can be")
        return ILL
    for name in found.blobs:
        place = check.set_aside(settings, name)
        if place is not None:
            print(f"set aside      {place}")
    _mend(arguments, settings, found)
    return ILL


def _mend(arguments: argparse.Namespace, settings: NodeSettings, found: check.Findings) -> None:
    """Tells the node that runs, or does in its place what it would do."""
    from server_stub.node.http.repair import Damage, apply
    from server_stub.node.state import events
    from server_stub.node.state.lost import Lost
    from server_stub.node.state.words import Rules, Step

    damage = Damage(tuple(found.blobs), tuple(found.results))
    answer = _told(settings, msgspec.json.encode(damage))
    if answer is not None:
        mended = msgspec.json.decode(answer, type=list[Lost])
    else:
        from server_stub.node.service import open_state

        state = open_state(settings)
        try:
            with changing(arguments) as tx:
                rules = Rules(catalog_hash=catalog_hash())
                step = Step(tx, time.time(), random.SystemRandom(), rules)
                mended = apply(step, damage)
                events.settle(tx, [step])
        finally:
            state.close()
    for lost in mended:
        if lost.words:
            print(f"lost           {lost.job}: {lost.words}")
        else:
            print(f"computed again {lost.job}: {lost.tasks} tasks")
    if not mended:
        print("no job needed what was damaged")


def _told(settings: NodeSettings, body: bytes) -> bytes | None:
    """What a running node answers; None when none runs. Raises GoblinError."""
    connection = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.settimeout(TIMEOUT_S)
        connection.sock.connect(str(settings.socket_path))
    except OSError:
        connection.close()
        return None
    try:
        connection.request("POST", "/v1/repair", body)
        reply = connection.getresponse()
        answer = reply.read(MAX_REPLY_BYTES)
    finally:
        connection.close()
    if reply.status != 200:
        raise remote_error(reply.status, answer) or NodeError("internal", kind=str(reply.status))
    return answer


def _gc(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    with database_errors(settings):
        found = collect.find(settings)
        gone = collect.collect(settings, found) if arguments.delete else found
        limits = retention.Limits.of(settings.cache_days, settings.cache_bytes)
        gone += collect.caches(
            settings, retention.NOTHING if arguments.cache else limits, delete=arguments.delete
        )
    kinds = Counter(free.kind for free in gone)
    for free in gone:
        print(f"{free.kind:<9}{format_bytes(free.nbytes):>12}  {free.path}")
    total = format_bytes(sum(free.nbytes for free in gone))
    words = ", ".join(f"{count} of kind {kind}" for kind, count in sorted(kinds.items()))
    print(f"{'freed' if arguments.delete else 'free'}          {total} ({words or 'nothing'})")
    if gone and not arguments.delete:
        print("nothing was deleted; --delete does it")
    return 0
