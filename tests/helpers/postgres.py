"""A real PostgreSQL for the tests: made in a temporary directory, on a Unix socket alone.

Owns: finding the server's programs, starting and stopping it, new databases in it. The server
refuses to run as root, so root starts it as the user `postgres` or `nobody`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["MISSING", "Postgres", "missing", "running", "undone"]

MISSING = "no PostgreSQL server is installed (GPUGOBLIN_POSTGRES=1 scripts/test installs one)"
USER = "goblin"


def programs() -> Path | None:
    """The directory of `initdb` and `postgres`, the newest that is installed."""
    places = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda one: int(one.parent.name),
        reverse=True,
    )
    found = shutil.which("postgres")
    if found is not None:
        places.append(Path(found).parent)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    return None


def missing() -> bool:
    """Whether no server, or no driver, is installed."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return True
    return programs() is None


@dataclass
class Postgres:
    """A server that runs."""

    directory: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def dsn(self, name: str = "postgres") -> str:
        return f"postgresql://{USER}@/{name}?host={self.directory}"

    def connect(self, name: str = "postgres") -> Any:
        import psycopg

        return psycopg.connect(self.dsn(name), autocommit=True)

    def new_database(self) -> str:
        """The DSN of a new, empty database."""
        return self.copy_of(self.dsn("template0"))

    def copy_of(self, dsn: str) -> str:
        """The DSN of a new database that begins as a copy of one that nobody uses."""
        name = f"test_{next(self.numbers)}"
        with self.connect() as connection:
            connection.execute(
                f"CREATE DATABASE {name} TEMPLATE {self.name_of(dsn)} ENCODING 'UTF8'"
            )
        return self.dsn(name)

    def drop(self, dsn: str) -> None:
        """Deletes a database."""
        with self.connect() as connection:
            connection.execute(f"DROP DATABASE {self.name_of(dsn)} WITH (FORCE)")

    @staticmethod
    def name_of(dsn: str) -> str:
        """The name of a database of this server."""
        return dsn.partition("@/")[2].partition("?")[0]

    def backends(self, dsn: str) -> list[int]:
        """Process ids of the coordinators' connections to a database."""
        name = self.name_of(dsn)
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s"
                " AND application_name = 'gpugoblin-coordinator'",
                (name,),
            ).fetchall()
        return [row[0] for row in rows]

    def cut(self, process: int) -> None:
        """Ends a connection from the server's side, as a crash of its backend does."""
        with self.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (process,))


@contextlib.contextmanager
def running(*options: str) -> Iterator[Postgres]:
    """Starts a server and stops it. Options such as `fsync=on` replace those that tests want."""
    place = programs()
    if place is None:
        raise FileNotFoundError(MISSING)
    directory = Path(tempfile.mkdtemp(prefix="gg-pg-"))  # a short path: it names a socket
    identity = _identity(directory)
    data = directory / "data"
    try:
        subprocess.run(
            [place / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8",
             "--locale=C", "--no-sync", "--no-instructions"],
            check=True, stdout=subprocess.DEVNULL, cwd=directory, timeout=60, **identity,
        )  # fmt: skip
        with (directory / "log").open("wb") as log:
            server = subprocess.Popen(
                [place / "postgres", "-D", data, "-k", directory,
                 "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB",
                 "-c", "max_connections=40", "-c", "autovacuum=off",
                 *(word for option in options for word in ("-c", option))],
                stdout=log, stderr=log, cwd=directory, **identity,
            )  # fmt: skip
            try:
                found = Postgres(directory)
                _wait(found, server)
                yield found
            finally:
                server.send_signal(signal.SIGINT)  # fast: connections are ended
                try:
                    server.wait(20)
                except subprocess.TimeoutExpired:
                    server.send_signal(signal.SIGQUIT)
                    server.wait(20)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _identity(directory: Path) -> dict[str, Any]:
    if os.getuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _wait(found: Postgres, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    ends_s = time.monotonic() + 30
    while True:
        try:
            found.connect().close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > ends_s:
                raise RuntimeError((found.directory / "log").read_text()) from None
            time.sleep(0.05)


@contextlib.contextmanager
def undone(dsn: str) -> Iterator[Any]:
    """A transaction of the coordinator that is undone at the end."""
    from server_stub.coordinator.postgres import connect
    from server_stub.coordinator.store_postgres import PostgresTransaction

    with contextlib.closing(connect(dsn)) as connection:
        connection.execute("BEGIN")
        yield PostgresTransaction(connection)
        connection.execute("ROLLBACK")
