"""`gpugoblin validator`: a machine that judges results for a lab node."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.units import GIB, MIB
from gpugoblin.wire.keys import load_or_make_key
from gpugoblin.wire.signing import public_key_bytes
from server_stub import logs
from server_stub.node.executors.ray_hand import Hand
from server_stub.node.executors.ray_words import BridgeConfig
from server_stub.node.validating.machine import Machine, NodeDoor

__all__ = ["main"]

MEMORY_BYTES: Final = 2 * GIB
SLOT_BYTES: Final = 256 * MIB
HTTPS_PORT: Final = 443
HOST: Final = re.compile(r"[a-z0-9.:-]{1,200}", re.ASCII)


def main(given: Sequence[str] | None = None) -> int:
    """Checks and recomputes results of volunteers for a lab node.

    Works until SIGTERM. Returns the exit status; errors go to standard error.
    """
    arguments = _parser().parse_args(sys.argv[1:] if given is None else given)
    try:
        # A key of its own for each node: what is signed for one lab is worth nothing at another.
        place = arguments.directory / _name_of(arguments.node)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = load_or_make_key(place / "validator.key")
        shown = public_key_bytes(key).hex()
        print(f"key            {shown}")
        if arguments.show:
            print(f"on the node    gpugoblin node validator add NAME --key {shown}")
            return 0
        logs.configure("text")
        config = BridgeConfig(
            address="", namespace="", blob_root="", marker=str(place / "no-marker"),
            level=arguments.level, threads=arguments.threads, memory_bytes=MEMORY_BYTES,
            slot_bytes=SLOT_BYTES, reserve_bytes=256 * MIB, resource="",
            worker_dir=str(place), cache_bytes=arguments.cache_gb * 10**9,
            catalog_hash=catalog_hash(), version=version("gpugoblin"),
        )  # fmt: skip
        processors = len(os.sched_getaffinity(0))
        hand = Hand(msgspec.json.encode(config), "validator", processors, "none")
        machine = Machine(lambda: NodeDoor(arguments.node, arguments.certificate, key), hand)
        asyncio.run(_serve(hand, machine))
    except GoblinError as error:
        print(f"{error.what}\n{error.next_step} [{error.code}]", file=sys.stderr)
        return 1
    return 0


def _name_of(address: str) -> str:
    """A node's host and port, for a directory. Raises NodeError `parameter_invalid`."""
    try:
        found = urlsplit(address)
        host, port = found.hostname or "", found.port or HTTPS_PORT
    except ValueError:
        found, host, port = urlsplit(""), "", 0
    if found.scheme != "https" or HOST.fullmatch(host) is None:
        raise NodeError(
            "parameter_invalid", name="--node", value=address,
            reason="it is https://, a host, and a port where it is not 443",
        )  # fmt: skip
    return f"{host}_{port}"


async def _serve(hand: Hand, machine: Machine) -> None:
    await hand.hello()
    work = asyncio.create_task(machine.run())
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, work.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await work
    finally:
        await hand.stop()


def _parser() -> argparse.ArgumentParser:
    text = "Check and recompute results of volunteers for a lab node that knows this machine's key."
    parser = argparse.ArgumentParser(prog="gpugoblin validator", description=text)
    parser.add_argument("--node", required=True, metavar="ADDRESS", help="https://...")
    parser.add_argument("--show", action="store_true", help="show its key for this node, and end")
    text = "SHA-256 of the node's certificate; without it, an authority must vouch for it"
    parser.add_argument("--certificate", default="", metavar="SHA256", help=text)
    text = "for its key, and for blobs (default: %(default)s)"
    place = Path.home() / ".local" / "share" / "gpugoblin" / "validator"
    parser.add_argument("--directory", type=Path, default=place, help=text)
    parser.add_argument("--threads", type=int, default=0, help="of its engine; 0: all processors")
    levels = ("full", "reduced", "none")
    text = "walls of its engine (default: %(default)s)"
    parser.add_argument("--level", choices=levels, default="full", help=text)
    text = "10^9 bytes of blobs that it keeps (default: %(default)s)"
    parser.add_argument("--cache-gb", type=int, default=8, help=text)
    return parser
