"""The coordinator's HTTP face without sockets: requests go straight into the application.

Owns: `Front`, which sends what a client would and collects the reply, under a clock that the test
sets; and `Browser`, which keeps cookies and fills in forms as a person does.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode

from gpugoblin.wire.keys import make_key
from gpugoblin.wire.signing import sign_request
from server_stub.coordinator.app import make_app
from server_stub.coordinator.gate import Service
from server_stub.coordinator.house import House
from server_stub.coordinator.store import SqliteStore
from tests.helpers.coordinator import START_S, settings

__all__ = ["KEY", "Browser", "Front", "Reply", "SetClock"]

KEY = make_key()


@dataclass
class SetClock:
    now_s: float = START_S

    def wall_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    cookies: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The words of a page, without tags."""
        return unescape(re.sub(r"<[^>]*>", "", self.body.decode()))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Front:
    """Sends requests to the application as a server would."""

    store: SqliteStore
    clock: SetClock = field(default_factory=SetClock)
    chosen: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        house = House(settings(**self.chosen), make_key(), bytes(32))
        self.service = Service(house, self.store, self.clock, random.Random(1), "0.1.0")
        self.app = make_app(self.service)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | list[bytes] = b"",
        headers: dict[str, str] | None = None,
        address: str = "192.0.2.1",
        hangs: bool = False,
    ) -> Reply:
        return asyncio.run(self._send(method, path, body, headers or {}, address, hangs))

    def signed(self, path: str, body: bytes, **changed: Any) -> Reply:
        headers = sign_request(changed.pop("key", KEY), "POST", path, body, self.clock.now_s)
        return self.send("POST", path, body, headers, **changed)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | list[bytes],
        headers: dict[str, str],
        address: str,
        hangs: bool,
    ) -> Reply:
        pieces = body if isinstance(body, list) else [body]
        waiting = list(pieces)
        sent: list[Any] = []

        async def receive() -> dict[str, object]:
            if waiting:
                piece = waiting.pop(0)
                more = bool(waiting) or hangs
                return {"type": "http.request", "body": piece, "more_body": more}
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        plain, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": plain,
            "raw_path": plain.encode(),
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
            "client": (address, 5000),
            "server": ("test", 80),
            "scheme": "http",
            "root_path": "",
        }
        await self.app(scope, receive, send)
        found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        cookies = [v.decode() for k, v in sent[0]["headers"] if k == b"set-cookie"]
        body = b"".join(m.get("body", b"") for m in sent[1:])
        return Reply(sent[0]["status"], found, body, cookies)


@dataclass
class Browser:
    """Keeps cookies, reads the token of the page's forms, and follows one redirection."""

    front: Front
    address: str = "192.0.2.1"
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> Reply:
        return self._ask("GET", path, b"", {})

    def post(self, path: str, fields: dict[str, str], **changed: str) -> Reply:
        """Sends a form from the page at `path`, with the token that stands there."""
        page = self.get(path).body.decode()
        found = re.search(r'name="token" value="([^"]*)"', page)
        if found is None:
            raise AssertionError(f"{path} has no form")
        given = {"token": found[1], **fields}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": "https://test",
            "Sec-Fetch-Site": "same-origin",
            **changed,
        }
        return self._ask("POST", path, urlencode(given).encode(), headers)

    def sign_in(self, mailbox: str) -> Reply:
        """Asks for a code, takes it out of the outbox, and brings it back."""
        self.post("/signin", {"mailbox": mailbox})
        letter = self.front.store.submit(
            lambda tx: tx.row("SELECT words_letter FROM mail ORDER BY number DESC LIMIT 1")
        ).result(10)
        code = re.search(r"\d{4} \d{4}", letter[0] if letter else "")
        if code is None:
            raise AssertionError("no letter with a code waits")
        return self.post("/signin/code", {"code": code[0]})

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"Host": "test", **self.headers, **headers, "Cookie": cookie}
        reply = self.front.send(method, path, body, sent, self.address)
        for one in reply.cookies:
            name, _, rest = one.partition("=")
            value = rest.partition(";")[0]
            if "Max-Age=0" in one or value in ("", '""'):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return reply
