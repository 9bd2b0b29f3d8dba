"""`gpugoblin node doctor`: what works, what does not, and what to do.

Owns: one line for each finding. Must not: change anything.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import shutil
import socket
from importlib.metadata import version
from typing import Final

from app.sandbox.host import read_host
from app.sandbox.host_fixes import fix
from gpugoblin.errors import GoblinError
from gpugoblin.units import MIB, format_bytes
from gpugoblin.wire.keys import load_or_make_key
from server_stub.node import disk_rate, reach
from server_stub.node.commands.common import ILL, Commands, add, settings_of
from server_stub.node.settings import NodeSettings

__all__ = ["register", "run"]

PATIENCE_S: Final = 5.0
MAX_HEALTH_BYTES: Final = 64 * 1024
LEAST_BYTES_PER_S: Final = 20 * MIB
"""A disk that syncs slower holds up a single engine."""


def register(commands: Commands) -> None:
    add(commands, "doctor", run, "say what works and what does not")


def run(arguments: argparse.Namespace) -> int:
    """Prints one line a finding; the status is 3 when something is not well."""
    settings = settings_of(arguments)
    findings = [
        *_versions(settings), *_disk(settings), _socket(settings), *_network(settings),
        _sandbox(settings),
    ]  # fmt: skip
    if settings.state.is_dir():
        findings += [*_disk_speed(settings), *_outside(settings)]
    for good, text in findings:
        print(f"{'well    ' if good else 'not well'}  {text}")
    return 0 if all(good for good, _ in findings) else ILL


def _disk(settings: NodeSettings) -> list[tuple[bool, str]]:
    if not settings.state.is_dir():
        return [(False, f"{settings.state} does not exist: run `gpugoblin node init`")]
    writable = os.access(settings.state, os.W_OK)
    free = shutil.disk_usage(settings.state).free
    return [
        (writable, f"state directory {settings.state} is {'' if writable else 'not '}writable"),
        (free > settings.reserve_bytes, f"{format_bytes(free)} are free on its disk"),
    ]


def _socket(settings: NodeSettings) -> tuple[bool, str]:
    probe = socket.socket(socket.AF_UNIX)
    try:
        probe.connect(str(settings.socket_path))
    except OSError as error:
        return False, f"no node answers at {settings.socket_path} ({error.strerror})"
    finally:
        probe.close()
    return True, f"a node answers at {settings.socket_path}"


def _network(settings: NodeSettings) -> list[tuple[bool, str]]:
    if not settings.lab:
        return [(True, "the node belongs to no lab: jobs stay on this machine")]
    confirmed = settings.confirmed_no_confidential_data
    return [
        (bool(settings.listen_port), f"HTTPS port {settings.listen_port or 'is off'}"),
        (confirmed, "confirmed_no_confidential_data is " + ("true" if confirmed else "false")),
        (
            bool(settings.coordinator_address),
            f"coordinator {settings.coordinator_address or 'is not set'}",
        ),
    ]


def _sandbox(settings: NodeSettings) -> tuple[bool, str]:
    if settings.engine_level != "full":
        return True, f"engines run at level {settings.engine_level}"
    found = shutil.which("bwrap")
    if found is not None:
        return True, f"bubblewrap is {found}"
    way_out = fix(read_host(), "bwrap_missing") or "install it"
    return False, f"bubblewrap is missing. {way_out}"


def _versions(settings: NodeSettings) -> list[tuple[bool, str]]:
    """This program's version, and whether the node that runs is of the same."""
    own = version("gpugoblin")
    running = _running_version(settings)
    if running and running != own:
        text = f"the node that runs is of version {running}, this program of {own}: start it again"
        return [(False, text)]
    return [(True, f"version {own}, Python {platform.python_version()}")]


def _running_version(settings: NodeSettings) -> str:
    """What a running node says; empty when none does."""
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(PATIENCE_S)
    try:
        connection.sock.connect(str(settings.socket_path))
        connection.request("GET", "/v1/health")
        found = json.loads(connection.getresponse().read(MAX_HEALTH_BYTES))
        return str(found["version"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return ""
    finally:
        connection.close()


def _disk_speed(settings: NodeSettings) -> list[tuple[bool, str]]:
    """One synced write of 32 MiB: what every verified tile waits for."""
    try:
        rate = disk_rate.measure(settings.state)
    except OSError as error:
        return [(False, f"the disk takes no file of 32 MiB: {error.strerror or error}")]
    text = f"the disk writes {format_bytes(int(rate))} a second, synced"
    if rate < LEAST_BYTES_PER_S:
        return [(False, f"{text}: every verified tile waits for it; put state_dir on another disk")]
    return [(True, text)]


def _outside(settings: NodeSettings) -> list[tuple[bool, str]]:
    """What the coordinator sees of this node, and what its clock says."""
    key_file = settings.state / "node.key"
    if not (settings.lab and settings.coordinator_address and key_file.exists()):
        return []
    try:
        found = reach.ask(
            load_or_make_key(key_file), settings.coordinator_address,
            settings.coordinator_certificate_sha256,
        )  # fmt: skip
    except GoblinError as error:
        return [(False, f"{error.what} {error.next_step} [{error.code}]")]
    skew_s = reach.skew_s(found)
    clock = f"the clock is {abs(skew_s):.1f} s {'before' if skew_s > 0 else 'behind'} the"
    clock += " coordinator's"
    if abs(skew_s) > reach.MOST_SKEW_S:
        clock += ": signed requests are refused; turn on time synchronization (NTP)"
    known = found.lab == settings.lab
    registered = "" if known else f" But the coordinator knows this key as {found.lab}."
    return [
        reach.explained(found, settings),
        (abs(skew_s) <= reach.MOST_SKEW_S, clock),
        (known, f"the lab's id is {settings.lab}.{registered}"),
    ]
