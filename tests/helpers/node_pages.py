"""A browser without a screen in front of a lab node's pages, for tests.

Owns: `Browser`, which keeps cookies and sends forms with the token of the page that it saw last.
"""

from __future__ import annotations

import re
from typing import Any

import requests

from gpugoblin.wire.pinning import PinnedAdapter
from server_stub.node import users
from tests.helpers.lab import Lab

__all__ = ["Browser", "give_job", "make_user"]


class Browser:
    """A visitor of the pages. A context manager."""

    def __init__(self, lab: Lab) -> None:
        service = lab.node.service
        assert service.tls is not None
        self.base = f"https://127.0.0.1:{service.port}"
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = False
        self.session.mount("https://", PinnedAdapter(service.tls.sha256))
        self.token = ""

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def get(self, path: str, **headers: str) -> requests.Response:
        """Asks for a page; follows no redirect."""
        return self._seen(
            self.session.get(self.base + path, allow_redirects=False, timeout=20, headers=headers)
        )

    def post(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> Any:
        """Sends a form with the token of the last page, unless one is given."""
        fields.setdefault("token", self.token)
        return self._seen(self.session.post(
            self.base + path, data=fields, allow_redirects=False, timeout=20, headers=headers
        ))  # fmt: skip

    def _seen(self, reply: requests.Response) -> requests.Response:
        found = re.search(r'name="token" value="([^"]+)"', reply.text)
        if found:
            self.token = found[1]
        return reply

    def sign_in(self, token: str) -> requests.Response:
        """Signs in, and opens the first page, so that forms have their token."""
        self.get("/signin")
        reply: requests.Response = self.post("/signin", secret=token)
        self.get("/jobs")
        return reply


def make_user(lab: Lab, name: str, *scopes: str) -> str:
    """A user's token."""

    async def write() -> str:
        return await lab.node.node.store.write(
            lambda tx: users.add(tx, 1.0, name, scopes or users.SCOPES)
        )

    return lab.node.call(write())


def give_job(lab: Lab, owner: str, job: str) -> None:
    """Hands a job of the lab's researcher to another user."""

    async def write() -> None:
        await lab.node.node.store.write(
            lambda tx: tx.change("update job set owner = ? where id = ?", (owner, job))
        )

    lab.node.call(write())
