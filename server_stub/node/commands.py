"""The lab's command line: `gpugoblin node init | serve | user | doctor`.

Owns: arguments and what is printed. Must not: do anything that the service does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.units import format_bytes
from gpugoblin.wire.keys import load_or_make_key
from gpugoblin.wire.signing import fingerprint, public_key_bytes
from gpugoblin.wire.tls import make_self_signed
from server_stub.node import settings as node_settings
from server_stub.node import users
from server_stub.node.settings import NodeSettings
from server_stub.node.store.sqlite import connect, migrate, transaction

__all__ = ["main", "register"]

ILL: Final = 3
"""What `doctor` returns when something is not well, as `gpugoblin agent doctor` does."""

DEFAULT_CONFIG: Final = Path("/etc/gpugoblin/node.toml")


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the commands below `gpugoblin node`."""
    commands = parser.add_subparsers(dest="node_command", required=True)

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        _add_config(command)
        command.set_defaults(run=run)
        return command

    init = add("init", _init, "write a configuration and make the node's key")
    init.add_argument("--state-dir", type=Path, required=True, help="for keys, jobs and results")
    init.add_argument("--lab", default="", help="the lab's id at the coordinator")
    init.add_argument("--port", type=int, default=0, help="of HTTPS; 0: none")
    init.add_argument("--coordinator", default="", help="https://host:port")
    add("serve", _serve, "run the lab node")
    add("doctor", _doctor, "say what works and what does not")
    user = commands.add_parser("user", help="tokens for researchers on other machines")
    actions = user.add_subparsers(dest="user_command", required=True)
    for name, run in (("add", _user_add), ("revoke", _user_revoke), ("list", _user_list)):
        action = actions.add_parser(name)
        _add_config(action)
        action.set_defaults(run=run)
        if name != "list":
            action.add_argument("name")
        if name == "add":
            text = "what the token allows (repeatable; default: both)"
            action.add_argument("--scope", action="append", choices=users.SCOPES, help=text)


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config", type=Path, default=DEFAULT_CONFIG, metavar="FILE", help="default: %(default)s"
    )


def main(given: Sequence[str] | None = None) -> int:
    """Runs a lab node: init, serve, user, doctor.

    Returns the exit status; errors go to standard error.
    """
    parser = argparse.ArgumentParser(prog="gpugoblin node")
    register(parser)
    arguments = parser.parse_args(sys.argv[1:] if given is None else given)
    try:
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except GoblinError as error:
        print(f"{error.what}\n{error.next_step} [{error.code}]", file=sys.stderr)
        return 1


def _init(arguments: argparse.Namespace) -> int:
    config: Path = arguments.config
    if config.exists():
        print(f"{config} is there already; it is left as it is.", file=sys.stderr)
        return 1
    given = {"state_dir": str(arguments.state_dir.absolute())}
    parsed = node_settings.parse({
        **given, "lab": arguments.lab, "listen_port": arguments.port,
        "coordinator_address": arguments.coordinator,
    })  # fmt: skip
    shown = {name: parsed.values[name] for name in
             ("state_dir", "lab", "listen_port", "coordinator_address")}  # fmt: skip
    shown["confirmed_no_confidential_data"] = False
    with _writing(parsed.state):
        parsed.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = load_or_make_key(parsed.state / "node.key")
    with _writing(config):
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(node_settings.template(shown), encoding="utf-8")
    public = public_key_bytes(key)
    print(f"configuration  {config}")
    print(f"key            {public.hex()}")
    print(f"fingerprint    {fingerprint(public)}")
    if parsed.listen_port:
        tls = make_self_signed(parsed.state, parsed.hostnames.split())
        print(f"certificate    {tls.sha256}")
    print("Before jobs may leave the lab, read confirmed_no_confidential_data in that file.")
    return 0


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raises NodeError `init_refused` where the system lets us write nothing."""
    try:
        yield
    except OSError as cause:
        reason = cause.strerror or str(cause)
        raise NodeError("init_refused", path=cause.filename or path, reason=reason) from cause


def _serve(arguments: argparse.Namespace) -> int:
    from server_stub.node.service import serve  # heavy: only the service needs it

    serve(node_settings.load(arguments.config))
    return 0


def _database(settings: NodeSettings) -> Path:
    with _writing(settings.state):
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return settings.database


def _user_add(arguments: argparse.Namespace) -> int:
    connection = connect(_database(node_settings.load(arguments.config)))
    try:
        migrate(connection)
        with transaction(connection) as tx:
            scopes = arguments.scope or users.SCOPES
            token = users.add(tx, time.time(), arguments.name, scopes)
    finally:
        connection.close()
    print(token)
    print("This token is shown once; the node keeps its hash only.", file=sys.stderr)
    return 0


def _user_revoke(arguments: argparse.Namespace) -> int:
    connection = connect(_database(node_settings.load(arguments.config)))
    try:
        migrate(connection)
        with transaction(connection) as tx:
            users.revoke(tx, time.time(), arguments.name)
    finally:
        connection.close()
    print(f"{arguments.name} can no longer connect; its jobs are kept.")
    return 0


def _user_list(arguments: argparse.Namespace) -> int:
    connection = connect(_database(node_settings.load(arguments.config)))
    try:
        migrate(connection)
        with transaction(connection) as tx:
            for name, revoked in users.listed(tx):
                print(f"{name}{'  (revoked)' if revoked else ''}")
    finally:
        connection.close()
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    """Prints one line a finding; the status is 3 when something is not well."""
    settings = node_settings.load(arguments.config)
    findings = [
        *_doctor_disk(settings), _doctor_socket(settings), *_doctor_network(settings),
        _doctor_sandbox(settings),
    ]  # fmt: skip
    for good, text in findings:
        print(f"{'well    ' if good else 'not well'}  {text}")
    return 0 if all(good for good, _ in findings) else ILL


def _doctor_disk(settings: NodeSettings) -> list[tuple[bool, str]]:
    if not settings.state.is_dir():
        return [(False, f"{settings.state} does not exist: run `gpugoblin node init`")]
    writable = os.access(settings.state, os.W_OK)
    free = shutil.disk_usage(settings.state).free
    return [
        (writable, f"state directory {settings.state} is {'' if writable else 'not '}writable"),
        (free > settings.reserve_bytes, f"{format_bytes(free)} are free on its disk"),
    ]


def _doctor_socket(settings: NodeSettings) -> tuple[bool, str]:
    probe = socket.socket(socket.AF_UNIX)
    try:
        probe.connect(str(settings.socket_path))
    except OSError as error:
        return False, f"no node answers at {settings.socket_path} ({error.strerror})"
    finally:
        probe.close()
    return True, f"a node answers at {settings.socket_path}"


def _doctor_network(settings: NodeSettings) -> list[tuple[bool, str]]:
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


def _doctor_sandbox(settings: NodeSettings) -> tuple[bool, str]:
    if settings.engine_level != "full":
        return True, f"engines run at level {settings.engine_level}"
    found = shutil.which("bwrap")
    return found is not None, (
        f"bubblewrap is {found}" if found else "bubblewrap is missing: apt-get install bubblewrap"
    )
