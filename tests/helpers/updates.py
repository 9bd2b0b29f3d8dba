"""A repository of announcements with keys of its own, served on the loopback.

Owns: `served`, which may be told to misbehave. The ceremony is the one of packaging/update.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.helpers.packaging_script import script

__all__ = ["Served", "served"]


class Served:
    """A repository that is served.

    `answer` may take a request instead of the files: it is given the path, and returns status and
    body, or None to let the file be served.
    """

    def __init__(self, folder: Path, keys: Path) -> None:
        self.folder = folder
        self.keys = keys
        self.asked: list[str] = []
        self.answer: Callable[[str], tuple[int, bytes] | None] = lambda path: None
        self.repository = self.at(datetime.now(UTC))

    def at(self, now: datetime) -> Any:
        """The ceremony at another time."""
        return script("update/repository").Repository(self.keys, self.folder, b"of a test", now)

    @property
    def trust(self) -> Path:
        return self.folder / "trust"


class _Handler(SimpleHTTPRequestHandler):
    served: Served

    def do_GET(self) -> None:
        self.served.asked.append(self.path)
        given = self.served.answer(self.path)
        if given is None:
            super().do_GET()
            return
        status, body = given
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # whoever asked has heard enough
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@contextmanager
def served(base: Path, now: datetime | None = None) -> Iterator[Served]:
    """A repository with new keys that announces nothing yet."""
    base.mkdir(exist_ok=True)
    made = Served(base / "served", base / "keys")
    if now is not None:
        made.repository = made.at(now)
    handler = type("Handler", (_Handler,), {"served": made})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(made.folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        made.repository.make_keys()
        made.repository.begin(f"http://127.0.0.1:{server.server_port}")
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
