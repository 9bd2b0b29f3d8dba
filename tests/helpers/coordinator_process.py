"""A real coordinator process, and devices and lab nodes of a few lines that talk to it.

Owns: starting, killing and commanding the process; the signed requests of both parties.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import requests

from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.contact import (
    Contact,
    ContactReply,
    Demand,
    DemandReply,
    Grant,
    Revocations,
)
from gpugoblin.wire.messages.enrol import EnrolPoll, EnrolPollReply, EnrolStart, EnrolStartReply
from gpugoblin.wire.messages.receipt import Receipt, ReceiptBatch, ReceiptBatchReply
from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.signing import public_key_bytes, sign_claim, sign_request
from gpugoblin.wire.tickets import verify_grant, verify_revocations
from server_stub.coordinator.cli import main
from tests.helpers.coordinator import card

__all__ = ["Device", "Lab", "Party", "Server"]

M = TypeVar("M", bound=msgspec.Struct)
START_LIMIT_S = 30.0


class Server:
    """A coordinator process that can be killed and started again on the same directory."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.address = ""
        self.sha256 = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "server_stub.coordinator", "serve", "--config",
             str(self.config)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        assert line, self.process.communicate(timeout=START_LIMIT_S)
        assert line[0] == "ready"
        self.address = line[1]
        self.sha256 = line[2].partition("=")[2] if len(line) > 2 else ""

    def end(self, number: int) -> int:
        """Sends a signal and waits; the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=START_LIMIT_S)
        assert "Traceback" not in errors, errors
        status = self.process.returncode
        self.process = None
        return status

    def run(self, *words: str, status: int = 0) -> Any:
        """An operator's command beside the running server."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = main([*words, "--config", str(self.config), "--json"])
        text = printed.getvalue()
        assert code == status
        return json.loads(text) if text.strip() else None


class Party:
    """A key that talks to the coordinator."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.key = make_key()
        self.public_key = public_key_bytes(self.key)

    def session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.verify = False
        session.mount("https://", PinnedAdapter(self.server.sha256))
        return session

    def post(self, path: str, message: msgspec.Struct, kind: type[M]) -> M:
        body = encode(message)
        reply = self.raw("POST", path, body)
        assert reply.status_code == 200, reply.text
        return decode(kind, reply.content)

    def raw(self, method: str, path: str, body: bytes, clock_s: float = 0.0) -> requests.Response:
        headers = sign_request(self.key, method, path, body, time.time() + clock_s)
        with self.session() as session:
            return session.request(
                method, self.server.address + path, data=body, headers=headers, timeout=20
            )


class Device(Party):
    """A contributor's machine with one card."""

    def enrol(self, account: str) -> str:
        started = self.post("/v1/enrol/start", EnrolStart(self.public_key), EnrolStartReply)
        self.server.run("approve", started.user_code, "--account", account)
        polled = self.post("/v1/enrol/poll", EnrolPoll(started.enrolment), EnrolPollReply)
        assert polled.state == "approved"
        assert polled.device is not None
        return polled.device

    def contact(self, holding: tuple[Any, ...] = (), wants: tuple[int, ...] = (0,)) -> ContactReply:
        message = Contact(cards=(card(0),), holding=holding, wants=wants)
        return self.post("/v1/contact", message, ContactReply)


class Lab(Party):
    """A lab node."""

    def register(self, name: str) -> None:
        made = self.server.run(
            "lab", "add", name, "--key", self.public_key.hex(), "--address", "https://127.0.0.1:9"
        )
        self.name = made["lab"]
        reply = self.post("/v1/node/demand", Demand(self.name, 10), DemandReply)
        assert reply.coordinator_key.hex() == made["coordinator_key"]
        self.coordinator_key = reply.coordinator_key

    def verified(self, ticket: str, device: Device) -> Grant:
        return verify_grant(
            ticket, keys=[self.coordinator_key], audience=self.name, now_s=time.time(),
            device_key=device.public_key,
        )  # fmt: skip

    def revoked(self) -> tuple[int, tuple[str, ...]]:
        path = f"/v1/node/revocations?lab={self.name}"
        reply = decode(Revocations, self.raw("GET", path, b"").content)
        found = verify_revocations(
            reply.ticket, keys=[self.coordinator_key], audience=self.name, now_s=time.time()
        )
        return found.number, found.revoked

    def receipt(self, device: Device, grant: Grant, number: int) -> Receipt:
        letters = "abcdefghijklmnopqrstuvwxyz"
        name = letters[number // 26 % 26] + letters[number % 26]
        lease: Any = f"lease_{name}"
        return Receipt(
            receipt=f"receipt_{name}", grant=grant.jti, lease=lease, units=1.5,  # type: ignore[arg-type]
            device_signature=sign_claim(device.key, lease, grant.jti), verified_s=time.time(),
        )  # fmt: skip

    def book(self, *receipts: Receipt) -> ReceiptBatchReply:
        batch = ReceiptBatch(self.name, receipts)
        return self.post("/v1/node/receipts", batch, ReceiptBatchReply)
