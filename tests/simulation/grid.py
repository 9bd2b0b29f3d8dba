"""A coordinator in a simulated world: real handlers over real SQLite, everything else made up.

Owns: virtual time, a network that loses and repeats, machines that come, compute, go and are
revoked, labs that bring receipts, and a server that may be killed before any statement and after
any commit, or find its disk full. One seed decides all of it.
"""

from __future__ import annotations

import base64
import heapq
import itertools
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent.backoff import Backoff
from gpugoblin.errors import GoblinError
from gpugoblin.ids import DeviceId, GrantId
from gpugoblin.wire.messages.contact import Contact, ContactReply, Demand
from gpugoblin.wire.messages.receipt import Receipt, ReceiptBatch, ReceiptBatchReply
from gpugoblin.wire.signing import public_key_bytes, sign_claim
from server_stub.coordinator.dialects import SQLITE, statements
from server_stub.coordinator.handlers import common, contact, node, operator
from server_stub.coordinator.handlers.contact import Asked
from server_stub.coordinator.house import Caller, House, draw_id
from server_stub.coordinator.schema import MIGRATIONS, VERSION
from server_stub.coordinator.store import SqliteTransaction, Value
from tests.helpers.coordinator import START_S, Desk, card, settings
from tests.simulation.world import Killed

__all__ = ["Book", "Grid", "Machine", "Office"]

T = TypeVar("T")


class Fragile(SqliteTransaction):
    """A transaction that may end the process, or find the disk full, before any statement."""

    def __init__(self, connection: sqlite3.Connection, strike: Callable[[], None]) -> None:
        super().__init__(connection)
        self._strike = strike

    def execute(self, sql: str, *values: Value) -> int:
        self._strike()
        return super().execute(sql, *values)

    def row(self, sql: str, *values: Value) -> Any:
        self._strike()
        return super().row(sql, *values)

    def rows(self, sql: str, *values: Value) -> list[Any]:
        self._strike()
        return super().rows(sql, *values)


@dataclass
class Book:
    """What the invariants have read of the ledger so far: up to which row, and its sums."""

    row: int = 0
    looks: int = 0
    balances: Counter[str] = field(default_factory=Counter)
    days: Counter[tuple[str, int]] = field(default_factory=Counter)


@dataclass
class Machine:
    """A contributor's machine with two cards. `holding`: grants by card, and their labs."""

    key: Ed25519PrivateKey
    name: str
    owner: str
    backoff: Backoff
    holding: dict[int, tuple[GrantId, str]] = field(default_factory=dict)
    is_revoked: bool = False


@dataclass
class Office:
    """A lab: what it verified and has not yet heard to be booked."""

    key: Ed25519PrivateKey
    lab: str
    limit: int
    wants: int = 0
    outbox: list[Receipt] = field(default_factory=list)


class Grid:
    """The coordinator and those around it. `kills`, `full`: probabilities before a statement."""

    def __init__(
        self, seed: int, *, kills: float = 0.0, full: float = 0.0, loses: float = 0.0,
        repeats: float = 0.0, machines: int = 6, labs: int = 3,
    ) -> None:  # fmt: skip
        self.rng = random.Random(seed)
        self.kills = self.full = 0.0
        self.loses, self.repeats = loses, repeats
        self.now_s = START_S
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.events = self.kill_count = self.full_count = 0
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.execute("PRAGMA foreign_keys=ON")
        for step in MIGRATIONS:
            for statement in statements(step, SQLITE):
                self.connection.execute(statement)
        self.connection.execute("UPDATE counter SET value = ? WHERE name = 'schema'", (VERSION,))
        key = Ed25519PrivateKey.from_private_bytes(self.rng.randbytes(32))
        self.house = House(settings(contact_jitter=0.2), key, self.rng.randbytes(32))
        self.verified: dict[str, tuple[str, str, int]] = {}
        self.accepted: Counter[tuple[bytes, bytes]] = Counter()
        self.waiting: list[tuple[Machine, Asked]] = []
        self.book = Book()
        self.seen: dict[str, float] = {}
        self.returned: dict[str, float] = {}
        desk = Desk(SqliteTransaction(self.connection), seed=seed)
        self.machines = []
        for number in range(machines):
            made = desk.device(f"owner-{number // 2}")
            backoff = Backoff(self.rng, most_s=600.0)
            self.machines.append(Machine(made.key, made.name, f"owner-{number // 2}", backoff))
        self.offices = []
        for number in range(labs):
            lab = desk.lab(f"lab-{number}", wants=0, max_cards=4)
            self.offices.append(Office(lab.key, lab.name, 4))
        self.kills, self.full = kills, full

    # The server.

    def _strike(self) -> None:
        if self.kills and self.rng.random() < self.kills:
            raise Killed
        if self.full and self.rng.random() < self.full:
            raise sqlite3.OperationalError("database or disk is full")

    def transact(self, work: Callable[[Fragile], T]) -> T | None:
        """A transaction; None when nobody hears of its end. What is in memory is lost with it."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(Fragile(self.connection, self._strike))
            self._strike()
            self.connection.execute("COMMIT")
        except (Killed, sqlite3.OperationalError) as cause:
            self.connection.execute("ROLLBACK")
            self._died(cause)
            return None
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        try:
            self._strike()
        except (Killed, sqlite3.OperationalError) as cause:
            self._died(cause)
            return None
        return result

    def _died(self, cause: BaseException) -> None:
        if isinstance(cause, Killed):
            self.kill_count += 1
            self.waiting.clear()
        else:
            self.full_count += 1

    def caller(self, key: Ed25519PrivateKey) -> Caller:
        nonce = self.rng.randbytes(16)
        return Caller(public_key_bytes(key), nonce, self.now_s + 300, "192.0.2.1")

    def ask(self, key: Ed25519PrivateKey, handler: Callable[..., T], message: Any) -> T | None:
        """One signed request over the bad network; None when no answer came back."""
        caller = self.caller(key)
        if self.rng.random() < self.loses:
            return None
        reply = None
        for _ in range(2 if self.rng.random() < self.repeats else 1):

            def work(tx: Fragile) -> T | GoblinError:
                try:
                    common.use_nonce(tx, self.now_s, caller)
                except GoblinError as replayed:
                    return replayed
                with tx.nested():
                    return handler(self.house, tx, self.now_s, self.rng, caller, message)

            found = self.transact(work)
            if found is not None and not isinstance(found, GoblinError):
                self.accepted[caller.public_key, caller.nonce] += 1
                reply = found
        return None if self.rng.random() < self.loses else reply

    # Machines.

    def come(self, machine: Machine) -> None:
        """A machine's contact arrives; it is answered with those that wait."""
        for number in list(machine.holding):
            if self.rng.random() < 0.05:
                del machine.holding[number]
        wants = tuple(n for n in range(2) if n not in machine.holding or self.rng.random() < 0.1)
        holding = tuple(grant for grant, _ in machine.holding.values())
        message = Contact(cards=(card(0), card(1)), holding=holding, wants=wants)
        if self.rng.random() >= self.loses:
            asked = Asked(self.caller(machine.key), message)
            self.waiting += [(machine, asked)] * (2 if self.rng.random() < self.repeats else 1)
        away_s = 2500.0 if self.rng.random() < 0.01 else 20.0
        self.later(away_s + machine.backoff.next_s(), lambda: self.come(machine))

    def answer(self) -> None:
        """The server answers the contacts that wait."""
        batch, self.waiting = self.waiting[:64], self.waiting[64:]
        if not batch:
            return
        asked = [one for _, one in batch]
        found = self.transact(
            lambda tx: contact.signed_contacts(self.house, tx, self.now_s, self.rng, asked)
        )
        for (machine, one), reply in zip(batch, found or [], strict=False):
            if isinstance(reply, ContactReply):
                self.accepted[one.caller.public_key, one.caller.nonce] += 1
                assert not machine.is_revoked, "a revoked machine is answered"
                if self.rng.random() >= self.loses:
                    self._heard(machine, reply)

    def _heard(self, machine: Machine, reply: ContactReply) -> None:
        machine.backoff.succeeded()
        for number, (grant, _) in list(machine.holding.items()):
            if grant in reply.revoked:
                del machine.holding[number]
        for offer in reply.grants:
            claims = self._claims(offer.ticket)
            machine.holding[offer.card] = (claims, offer.lab)

    def _claims(self, ticket: str) -> GrantId:
        body = ticket.split(".")[1]
        return GrantId(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["jti"])

    def compute(self, machine: Machine) -> None:
        """A machine works for a lab, which verifies that and owes it the credit."""
        for grant, lab in machine.holding.values():
            office = next(one for one in self.offices if one.lab == lab)
            lease: Any = draw_id("lease", self.rng)
            micro = self.rng.randrange(1, 5_000_000)
            receipt = Receipt(
                receipt=draw_id("receipt", self.rng),  # type: ignore[arg-type]
                grant=grant, lease=lease,
                device_signature=sign_claim(machine.key, lease, grant),
                units=micro / 1e6, verified_s=self.now_s,
            )  # fmt: skip
            self.verified[receipt.receipt] = (machine.owner, lab, micro)
            office.outbox.append(receipt)

    def revoke(self) -> None:
        """An operator revokes a machine or one of its grants."""
        machine = self.rng.choice(self.machines)
        if self.rng.random() < 0.2 and sum(not one.is_revoked for one in self.machines) > 3:

            def work(tx: Fragile) -> bool:
                operator.revoke_device(tx, self.now_s, DeviceId(machine.name))
                return True

            done = self.transact(work)
            row = self.connection.execute(
                "SELECT revoked_s FROM device WHERE device = ?", (machine.name,)
            ).fetchone()
            assert not done or row[0] is not None, "a revocation that was answered is lost"
            machine.is_revoked = row[0] is not None
        elif machine.holding:
            grant, _ = self.rng.choice(list(machine.holding.values()))
            self.transact(lambda tx: operator.revoke_grant(tx, self.now_s, grant))

    # Labs.

    def demand(self, office: Office) -> None:
        office.wants = self.rng.choice((0, 1, 3, 8))
        self.ask(office.key, node.demand, Demand(office.lab, office.wants))  # type: ignore[arg-type]

    def bring(self, office: Office) -> None:
        """The lab brings receipts, some of them again, until it hears that they are booked."""
        batch = tuple(office.outbox[:20])
        if not batch:
            return
        message = ReceiptBatch(lab=office.lab, receipts=batch)  # type: ignore[arg-type]
        reply: ReceiptBatchReply | None = self.ask(office.key, node.receipts, message)
        if reply is not None:
            assert not reply.refused, reply.refused
            assert reply.booked + reply.known == len(batch)
            office.outbox = office.outbox[len(batch) :]

    # Running.

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now_s + delay_s, next(self.order), action))

    def every(self, period_s: float, action: Callable[[], None]) -> None:
        def again() -> None:
            self.later(self.rng.uniform(0.5, 1.5) * period_s, again)
            action()

        self.later(self.rng.uniform(0.0, period_s), again)

    def run(self, until_s: float, check: Callable[[], None]) -> None:
        """Lets virtual time pass, event by event; checks after each that changed something."""
        end_s, seen = self.now_s + until_s, -1
        while self.queue and self.queue[0][0] <= end_s:
            at_s, _, action = heapq.heappop(self.queue)
            self.now_s = max(self.now_s, at_s)
            self.events += 1
            action()
            if self.connection.total_changes != seen:
                seen = self.connection.total_changes
                check()
        self.now_s = end_s
