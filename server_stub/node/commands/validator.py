"""`gpugoblin node validator`: whose machines may judge results for this node."""

from __future__ import annotations

import argparse

from server_stub.node.commands.common import Commands, add, changing
from server_stub.node.state import validators
from server_stub.node.state.validators import Validator

__all__ = ["register"]


def register(commands: Commands) -> None:
    text = "machines of the lab or of a partner that check and recompute results"
    validator = commands.add_parser("validator", help=text, description=text)
    actions = validator.add_subparsers(dest="validator_command", required=True, metavar="COMMAND")
    adding = add(actions, "add", _add, "let a machine judge, or change what is known of it")
    adding.add_argument("name")
    adding.add_argument("--key", required=True, help="as `gpugoblin validator` shows it there")
    text = "pseudonym of a contributor whose results it must not judge (repeatable)"
    adding.add_argument("--owner", action="append", default=[], metavar="PSEUDONYM", help=text)
    text = "network bucket of contributors whose results it must not judge (repeatable)"
    adding.add_argument("--bucket", action="append", default=[], help=text)
    text = "it is the lab's own: its acceptances are not repeated at random"
    adding.add_argument("--ours", action="store_true", help=text)
    removing = add(actions, "remove", _remove, "ask a machine no more")
    removing.add_argument("name")
    add(actions, "list", _list, "list them")


def _add(arguments: argparse.Namespace) -> int:
    validator = Validator(
        arguments.name, arguments.key, tuple(arguments.owner), tuple(arguments.bucket),
        arguments.ours,
    )  # fmt: skip
    with changing(arguments) as tx:
        validators.add(tx, validator)
    return _list(arguments)


def _remove(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        validators.remove(tx, arguments.name)
    return _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        found = validators.listed(tx)
    for one in found:
        whose = "the lab's own" if one.ours else "a partner's"
        caught = "" if one.caught_s is None else ", accepted what is wrong: not asked any more"
        print(f"{one.name}  {one.key[:16]}...  {whose}{caught}")
    return 0
