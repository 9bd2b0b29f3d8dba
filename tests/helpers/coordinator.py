"""A coordinator without sockets, and the people around it: devices, lab nodes, an operator.

Owns: `Desk`, which runs handlers in an SQLite database in memory under a clock that the test sets.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import GoblinError
from gpugoblin.wire.messages.contact import CardClass, Contact, ContactReply, Demand, Grant
from gpugoblin.wire.messages.enrol import EnrolStart
from gpugoblin.wire.messages.receipt import Receipt
from gpugoblin.wire.signing import public_key_bytes, sign_claim
from gpugoblin.wire.tickets import verify_grant
from server_stub.coordinator.dialects import SQLITE, statements
from server_stub.coordinator.handlers import contact, enrol, node, operator
from server_stub.coordinator.handlers.operator import NewLab
from server_stub.coordinator.house import Caller, House, draw_id
from server_stub.coordinator.schema import MIGRATIONS, VERSION
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.store import SqliteTransaction, Transaction

START_S = 1_790_000_000.0
GIB = 1024**3


def settings(**chosen: object) -> Settings:
    return Settings.of({"state_dir": "/nowhere", "contact_jitter": 0.0, **chosen})


@contextlib.contextmanager
def memory() -> Iterator[SqliteTransaction]:
    """A transaction on a new database in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys=ON")
    for step in MIGRATIONS:
        for statement in statements(step, SQLITE):
            connection.execute(statement)
    connection.execute("UPDATE counter SET value = ? WHERE name = 'schema'", (VERSION,))
    try:
        yield SqliteTransaction(connection)
    finally:
        connection.close()


def card(number: int = 0, **changed: Any) -> CardClass:
    given: dict[str, Any] = {
        "card": number,
        "kind": "cpu",
        "memory_bytes": 8 * GIB,
        "classes": ("float32",),
        "sandbox_level": "full",
        "engine_build": "engine-1",
        "catalog_hash": "ab" * 32,
    }
    return CardClass(**{**given, **changed})


class Desk:
    """Handlers over one database. `now_s` is moved by the test alone."""

    def __init__(self, tx: Transaction, *, seed: int = 1, **chosen: object) -> None:
        self.tx = tx
        self.rng = random.Random(seed)
        self.now_s = START_S
        key = Ed25519PrivateKey.from_private_bytes(self.rng.randbytes(32))
        self.house = House(settings(**chosen), key, self.rng.randbytes(32))

    def ask(
        self, handler: Callable[..., Any], key: Ed25519PrivateKey, message: Any, address: str
    ) -> Any:
        """What a handler answers; a refusal undoes what it did, as in the service."""
        caller = Caller(public_key_bytes(key), b"", 0.0, address)
        with self.tx.nested():
            return handler(self.house, self.tx, self.now_s, self.rng, caller, message)

    def refused(self, handler: Callable[..., Any], key: Ed25519PrivateKey, message: Any) -> str:
        """The code with which a handler refuses."""
        try:
            self.ask(handler, key, message, "192.0.2.1")
        except GoblinError as error:
            return error.code
        raise AssertionError("the handler accepted it")

    def account(self, name: str) -> str:
        return operator.add_account(self.tx, self.now_s, self.rng, name)

    def device(self, account: str = "ann", address: str = "192.0.2.1") -> Device:
        """An enrolled device of an account that exists or is made."""
        if self.tx.row("SELECT 1 FROM account WHERE name = ?", account) is None:
            self.account(account)
        key = Ed25519PrivateKey.from_private_bytes(self.rng.randbytes(32))
        reply = self.ask(enrol.start, key, EnrolStart(public_key_bytes(key)), address)
        decided = enrol.approve(self.house, self.tx, self.now_s, self.rng, account, reply.user_code)
        if decided.device is None:
            raise AssertionError(decided.error)
        return Device(self, key, decided.device, address)

    def lab(self, name: str = "lab-a", *, wants: int = 100, **changed: Any) -> Lab:
        """A registered lab that has said how many cards it wants."""
        key = Ed25519PrivateKey.from_private_bytes(self.rng.randbytes(32))
        new = NewLab(name, public_key_bytes(key).hex(), "https://127.0.0.1:9000", **changed)
        lab = Lab(self, key, operator.add_lab(self.tx, self.now_s, self.rng, new))
        lab.demand(wants)
        return lab


class Device:
    """One contributor's machine."""

    def __init__(self, desk: Desk, key: Ed25519PrivateKey, name: str, address: str) -> None:
        self.desk = desk
        self.key = key
        self.name = name
        self.address = address

    def contact(
        self, wants: tuple[int, ...] = (), holding: tuple[Any, ...] = (), **changed: Any
    ) -> ContactReply:
        cards: tuple[CardClass, ...] = changed.pop("cards", ())
        cards = cards or tuple(card(number, **changed) for number in sorted(set(wants)))
        message = Contact(cards=cards, holding=holding, wants=wants)
        reply = self.desk.ask(contact.contact, self.key, message, self.address)
        # What a server would send can be sent.
        return msgspec.json.decode(msgspec.json.encode(reply), type=ContactReply)

    def grant(self, number: int = 0, **changed: Any) -> Grant:
        """The claims of a new grant for one card, verified as its lab does."""
        (offer,) = self.contact((number,), **changed).grants
        return self.verified(offer.ticket, offer.lab)

    def verified(self, ticket: str, lab: Any) -> Grant:
        return verify_grant(
            ticket,
            keys=[self.desk.house.public_key],
            audience=lab,
            now_s=self.desk.now_s,
            device_key=public_key_bytes(self.key),
        )


class Lab:
    """One lab node."""

    def __init__(self, desk: Desk, key: Ed25519PrivateKey, name: Any) -> None:
        self.desk = desk
        self.key = key
        self.name = name

    def demand(self, wants: int, min_memory_bytes: int = 0) -> None:
        message = Demand(self.name, wants, min_memory_bytes)
        self.desk.ask(node.demand, self.key, message, "192.0.2.9")

    def receipt(self, device: Device, grant: Grant, **changed: Any) -> Receipt:
        """A receipt for a lease that the device signed."""
        lease: Any = changed.get("lease") or draw_id("lease", self.desk.rng)
        given: dict[str, Any] = {
            "receipt": draw_id("receipt", self.desk.rng),
            "grant": grant.jti,
            "lease": lease,
            "device_signature": sign_claim(device.key, lease, grant.jti),
            "units": 2.5,
            "verified_s": self.desk.now_s,
        }
        return Receipt(**{**given, **changed})


def write_config(directory: Path, **chosen: object) -> Path:
    """A configuration for a server on a free port of the loopback."""
    from server_stub.coordinator.state import initialize

    path = directory / "coordinator.toml"
    initialize(path, **{"port": 0, **chosen})
    return path
