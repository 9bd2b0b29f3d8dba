"""`gpugoblin node backup | restore`: a copy of the node, and a node out of one."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpugoblin.units import format_bytes
from server_stub.node.commands.common import ILL, Commands, add, settings_of
from server_stub.node.keeping.backup import backup
from server_stub.node.keeping.restore import restore

__all__ = ["register"]


def register(commands: Commands) -> None:
    copying = add(commands, "backup", _backup, "copy the node, which may be running")
    copying.add_argument("directory", type=Path, help="not there yet, or empty")
    taking = add(commands, "restore", _restore, "make a node out of a backup")
    taking.add_argument("directory", type=Path, help="of a backup")
    text = "where the node's data is to lie; default: where it was"
    taking.add_argument("--state-dir", type=Path, help=text)


def _backup(arguments: argparse.Namespace) -> int:
    made = backup(settings_of(arguments), arguments.config, arguments.directory)
    print(f"backup         {arguments.directory}")
    print(f"files          {made.files}, {format_bytes(made.nbytes)}")
    for blob in made.damaged:
        print(f"damaged        blob {blob} is not in the backup: run `gpugoblin node fsck`")
    print("It holds the node's keys: keep it where nobody else can read it.")
    return ILL if made.damaged else 0


def _restore(arguments: argparse.Namespace) -> int:
    made = restore(arguments.directory, arguments.config, arguments.state_dir)
    print(f"configuration  {arguments.config}")
    print(f"state          {made.state}")
    print(f"files          {made.files}, {format_bytes(made.nbytes)}, each with its hash")
    print(f"jobs           {made.unfinished} go on when the node is started")
    for blob in made.damaged:
        print(f"damaged        blob {blob} was damaged when the backup was made")
    print("Two nodes must not run with one key: the old one must stay off.")
    return 0
