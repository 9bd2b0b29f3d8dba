"""`gpugoblin node user`: tokens for researchers on other machines, and roles."""

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
    which = "its name, where a user has several (default: %(default)s)"
    adding.add_argument("--token", default="default", metavar="NAME", help=which)
    adding.add_argument("--days", type=float, help="after which it ends by itself")
    revoking = add(actions, "revoke", _revoke, "end a user's tokens and way in")
    revoking.add_argument("name")
    revoking.add_argument("--token", metavar="NAME", help="end this one only")
    ranking = add(actions, "role", _role, "say who is an administrator")
    ranking.add_argument("name", help="of a user with tokens, or of this machine")
    ranking.add_argument("role", choices=users.ROLES)
    add(actions, "list", _list, "list users")


def _add(arguments: argparse.Namespace) -> int:
    now_s = time.time()
    expires_s = None if arguments.days is None else now_s + arguments.days * 86400
    with changing(arguments) as tx:
        token = users.add(
            tx, now_s, arguments.name, arguments.scope or users.SCOPES, token=arguments.token,
            expires_s=expires_s,
        )  # fmt: skip
    print(token)
    print("This token is shown once; the node keeps its hash only.", file=sys.stderr)
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        users.revoke(tx, time.time(), arguments.name, arguments.token)
    if arguments.token is None:
        print(f"No token of {arguments.name} works any more, nor its pages; its jobs are kept.")
        if users.is_of_this_machine(arguments.name):
            print(
                f"The user {arguments.name} of this machine is refused at the node's Unix socket"
                f" as well, until `gpugoblin node user role {arguments.name} researcher`."
            )
    else:
        print(f"The token {arguments.token!r} of {arguments.name} has ended.")
    return 0


def _role(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        users.set_role(tx, time.time(), arguments.name, arguments.role)
    print(f"{arguments.name}: {arguments.role}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        found = users.listed(tx, time.time())
    for user in found:
        print(f"{user.name}  {user.role}{'  (revoked)' if user.is_revoked else ''}")
        for token in user.tokens:
            until = ""
            if token.expires_s is not None:
                until = time.strftime(", until %Y-%m-%d", time.gmtime(token.expires_s))
            if token.state != "revoked":
                print(f"    {token.name}: {token.scopes}, {token.state}{until}")
    return 0
