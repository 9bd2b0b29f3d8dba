"""`gpugoblin node serve`: the service, until SIGTERM."""

from __future__ import annotations

import argparse

from gpugoblin.errors import NodeError
from server_stub.node.commands.common import Commands, add, need_own_directory, settings_of

__all__ = ["register", "run"]


def register(commands: Commands) -> None:
    add(commands, "serve", run, "run the lab node")


def run(arguments: argparse.Namespace) -> int:
    """Returns when the node has ended."""
    from server_stub.node.service import serve  # heavy: only the service needs it

    settings = settings_of(arguments)
    need_own_directory(settings.state)
    if settings.lab and not (settings.state / "node.key").exists():
        raise NodeError("state_dir_empty", lab=settings.lab, path=settings.state)
    serve(settings)
    return 0
