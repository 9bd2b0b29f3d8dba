"""The lab's command line: `gpugoblin node COMMAND`.

Owns: the list of commands, one module each, and how an error is printed. A module offers
`register(commands)`, which adds its parsers with `common.add`; a new one is a line in `MODULES`.
Must not: know what a command does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Final

from gpugoblin.errors import GoblinError
from server_stub.node.commands import (
    checking,
    doctor,
    init,
    keeping,
    quota,
    registering,
    serve,
    upgrade,
    user,
    validator,
)

__all__ = ["MODULES", "main", "register"]

MODULES: Final[tuple[ModuleType, ...]] = (
    init,
    serve,
    registering,
    doctor,
    user,
    validator,
    quota,
    keeping,
    upgrade,
    checking,
)
"""In the order in which help lists them."""


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the commands below `gpugoblin node`."""
    commands = parser.add_subparsers(dest="node_command", required=True, metavar="COMMAND")
    for module in MODULES:
        module.register(commands)


def main(given: Sequence[str] | None = None) -> int:
    """Runs and keeps a lab node.

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
