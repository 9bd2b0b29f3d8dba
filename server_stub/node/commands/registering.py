"""`gpugoblin node register`: what the coordinator needs, and what its answer means.

Owns: the two halves: before the operator has registered the lab, what to send to the operator;
after it, the check of what is registered and the filling of the configuration.
"""

from __future__ import annotations

import argparse
import shlex

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.wire.keys import load_or_make_key
from gpugoblin.wire.messages.probe import ProbeReply
from gpugoblin.wire.signing import public_key_bytes
from server_stub.node import reach
from server_stub.node.commands.common import ILL, Commands, add, settings_of, writing
from server_stub.node.settings import NodeSettings
from server_stub.node.settings_file import rewrite

__all__ = ["register"]


def register(commands: Commands) -> None:
    command = add(commands, "register", _run, "join a coordinator, in two steps")
    command.add_argument("--coordinator", required=True, help="https://host:port")
    text = "SHA-256 of its certificate, if that is of no authority"
    command.add_argument("--certificate", default="", help=text)
    command.add_argument("--address", default="", help="https://host:port as the world reaches us")
    command.add_argument("--name", default="my-lab", help="of the lab, for the operator")


def _run(arguments: argparse.Namespace) -> int:
    from server_stub.node.service import tls_files  # heavy

    settings = settings_of(arguments)
    if not settings.listen_port:
        raise NodeError("register_no_port")
    with writing(settings.state):
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = load_or_make_key(settings.state / "node.key")
    own = tls_files(settings).sha256
    try:
        found = reach.ask(key, arguments.coordinator, arguments.certificate)
    except GoblinError as error:
        if error.code != "coordinator_lab_unknown":
            raise
        _show_request(arguments, settings, public_key_bytes(key).hex(), own)
        return ILL
    _check(arguments, settings, found, own)
    rewrite(arguments.config, {
        "lab": str(found.lab), "coordinator_address": arguments.coordinator,
        "coordinator_certificate_sha256": arguments.certificate,
        "coordinator_key": found.coordinator_key.hex(),
    })  # fmt: skip
    print(f"lab            {found.lab}")
    print(f"address        {found.address}")
    print(f"configuration  {arguments.config} is filled in; start the node again")
    good, text = reach.explained(found, settings)
    print(f"{'reached       ' if good else 'not reached   '} {text}")
    if not settings.confirmed_no_confidential_data:
        print("Before jobs may leave the lab, read confirmed_no_confidential_data in that file.")
    return 0


def _show_request(
    arguments: argparse.Namespace, settings: NodeSettings, key: str, certificate: str
) -> None:
    address = arguments.address or f"https://THE-ADDRESS-OF-THIS-LAB:{settings.listen_port}"
    pin = "" if settings.tls_certificate else f" --certificate {certificate}"
    print("The coordinator does not know this lab yet. Send this to its operator:")
    name = shlex.quote(arguments.name)
    line = f"lab add {name} --key {key} --address {shlex.quote(address)}{pin}"
    print(f"  gpugoblin coordinator {line}")
    print("Then run this command again.")


def _check(
    arguments: argparse.Namespace, settings: NodeSettings, found: ProbeReply, own: str
) -> None:
    """Raises NodeError `registered_otherwise`, `coordinator_key_differs`."""
    pinned = settings.coordinator_key
    if pinned and found.coordinator_key.hex() != pinned:
        raise NodeError(
            "coordinator_key_differs", found=found.coordinator_key.hex()[:16], pinned=pinned[:16]
        )
    if found.certificate_sha256 is not None and found.certificate_sha256 != own:
        raise NodeError(
            "registered_otherwise", what="certificate", there=found.certificate_sha256, here=own
        )
    if arguments.address and found.address != arguments.address:
        raise NodeError(
            "registered_otherwise", what="address", there=found.address, here=arguments.address
        )
