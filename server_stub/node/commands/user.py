"""`gpugoblin node user`: tokens for researchers on other machines."""

from __future__ import annotations

import argparse
import sys
import time

from server_stub.node import users
from server_stub.node.commands.common import Commands, add, changing

__all__ = ["register"]


def register(commands: Commands) -> None:
    text = "tokens for researchers on other machines"
    user = commands.add_parser("user", help=text, description=text)
    actions = user.add_subparsers(dest="user_command", required=True, metavar="COMMAND")
    adding = add(actions, "add", _add, "make a token")
    adding.add_argument("name")
    scopes = "what the token allows (repeatable; default: both)"
    adding.add_argument("--scope", action="append", choices=users.SCOPES, help=scopes)
    add(actions, "revoke", _revoke, "end a user's tokens").add_argument("name")
    add(actions, "list", _list, "list users")


def _add(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        token = users.add(tx, time.time(), arguments.name, arguments.scope or users.SCOPES)
    print(token)
    print("This token is shown once; the node keeps its hash only.", file=sys.stderr)
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        users.revoke(tx, time.time(), arguments.name)
    print(f"{arguments.name} can no longer connect; its jobs are kept.")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        for name, revoked in users.listed(tx):
            print(f"{name}{'  (revoked)' if revoked else ''}")
    return 0
