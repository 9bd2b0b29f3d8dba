"""`gpugoblin node doctor`: what works, what does not, and what to do.

Owns: one line for each finding. Must not: change anything.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket

from gpugoblin.units import format_bytes
from server_stub.node.commands.common import ILL, Commands, add, settings_of
from server_stub.node.settings import NodeSettings

__all__ = ["register", "run"]


def register(commands: Commands) -> None:
    add(commands, "doctor", run, "say what works and what does not")


def run(arguments: argparse.Namespace) -> int:
    """Prints one line a finding; the status is 3 when something is not well."""
    settings = settings_of(arguments)
    findings = [
        *_disk(settings), _socket(settings), *_network(settings),
        _sandbox(settings),
    ]  # fmt: skip
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
    return found is not None, (
        f"bubblewrap is {found}" if found else "bubblewrap is missing: apt-get install bubblewrap"
    )
