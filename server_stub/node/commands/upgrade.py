"""`gpugoblin node upgrade`: an older database becomes one of this program's version."""

from __future__ import annotations

import argparse
from contextlib import closing

from server_stub.node import presence
from server_stub.node.commands.common import Commands, add, database_errors, settings_of

__all__ = ["register"]


def register(commands: Commands) -> None:
    add(commands, "upgrade", _upgrade, "bring the database to this program's version")


def _upgrade(arguments: argparse.Namespace) -> int:
    """Takes the node's lock: nobody else has the database open meanwhile."""
    from server_stub.node.service import open_state  # heavy
    from server_stub.node.store import migrations
    from server_stub.node.store.schema import SCHEMA_VERSION
    from server_stub.node.store.sqlite import connect

    settings = settings_of(arguments)
    with database_errors(settings):
        presence.refuse_if_lost(settings)
    if not settings.database.exists():
        print(f"{settings.database} is not there yet: `gpugoblin node serve` makes it.")
        return 0
    with (
        database_errors(settings),
        closing(open_state(settings)),
        closing(connect(settings.database)) as connection,
    ):
        before, copy = migrations.upgrade(connection, settings.database)
    if copy is None:
        print(f"The database has version {SCHEMA_VERSION} already.")
    else:
        print(f"database       version {before} is now version {SCHEMA_VERSION}")
        print(f"copy           {copy}, as it was; delete it when all is well")
    return 0
