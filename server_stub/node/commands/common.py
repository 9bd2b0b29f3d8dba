"""What the commands of the lab share: how one is added, its configuration, and its database.

Must not: do what one command alone needs.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from gpugoblin.errors import NodeError
from server_stub.node import presence
from server_stub.node import settings as node_settings
from server_stub.node.settings import NodeSettings
from server_stub.node.store.protocol import Tx
from server_stub.node.store.sqlite import connect, migrate, named, transaction

__all__ = [
    "DEFAULT_CONFIG",
    "ILL",
    "Commands",
    "Run",
    "add",
    "changing",
    "database_errors",
    "need_own_directory",
    "settings_of",
    "writing",
]

DEFAULT_CONFIG: Final = Path("/etc/gpugoblin/node.toml")

ILL: Final = 3
"""What a command returns that found something not well, as `gpugoblin agent doctor` does."""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add_subparsers` returns."""

Run = Callable[[argparse.Namespace], int]


def add(commands: Commands, name: str, run: Run, text: str) -> argparse.ArgumentParser:
    """A command with `--config`; `run` returns the exit status."""
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument(
        "--config", type=Path, default=DEFAULT_CONFIG, metavar="FILE", help="default: %(default)s"
    )
    command.set_defaults(run=run)
    return command


def settings_of(arguments: argparse.Namespace) -> NodeSettings:
    """The settings that the command was given. Raises SettingsError."""
    return node_settings.load(arguments.config)


def need_own_directory(directory: Path) -> None:
    """A coordinator on this machine keeps its store and its keys elsewhere.

    Raises:
        NodeError: `state_dir_shared`.
    """
    if (directory / "ticket.key").exists():
        raise NodeError("state_dir_shared", path=directory)


@contextmanager
def changing(arguments: argparse.Namespace) -> Iterator[Tx]:
    """One transaction on the node's database, beside a running node.

    Raises:
        NodeError: `init_refused`, `database_missing`, `database_version`, as `database_errors`.
    """
    settings = settings_of(arguments)
    with writing(settings.state):
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with database_errors(settings):
        presence.refuse_if_lost(settings)
        with closing(connect(settings.database)) as connection:
            migrate(connection)
            with transaction(connection) as tx:
                yield tx


@contextmanager
def database_errors(settings: NodeSettings) -> Iterator[None]:
    """Raises NodeError `database_locked`, `database_failed`, `database_damaged` for SQLite's."""
    try:
        yield
    except sqlite3.OperationalError as cause:
        raise named(cause) from cause
    except sqlite3.DatabaseError as cause:
        raise NodeError("database_damaged", path=settings.database, reason=cause) from cause


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises NodeError `init_refused` where the system lets us write nothing."""
    try:
        yield
    except OSError as cause:
        reason = cause.strerror or str(cause)
        raise NodeError("init_refused", path=cause.filename or path, reason=reason) from cause
