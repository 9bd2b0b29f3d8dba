"""SQLite and PostgreSQL side by side: whatever happens, equal answers and equal tables.

One machine draws what devices, lab nodes, people and operators do, in any order, and now and then
ends the connection to PostgreSQL in the middle. Numbers that a database gives to rows by itself are
compared by their order: PostgreSQL does not use those again that an undone transaction had.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gpugoblin.errors import GoblinError
from gpugoblin.ids import DeviceId, GrantId, LabId
from gpugoblin.wire.messages.contact import Contact, Demand
from gpugoblin.wire.messages.enrol import EnrolPoll, EnrolStart
from gpugoblin.wire.messages.receipt import ReceiptBatch
from gpugoblin.wire.signing import public_key_bytes
from server_stub.coordinator import audit, ledger
from server_stub.coordinator.handlers import (
    abuse,
    applications,
    captains,
    certificates,
    contact,
    enrol,
    node,
    operator,
    people,
    quotas,
    signin,
    teams,
)
from server_stub.coordinator.handlers.common import use_nonce
from server_stub.coordinator.handlers.operator import NewLab
from server_stub.coordinator.house import Caller
from server_stub.coordinator.mail import outbox
from server_stub.coordinator.store import SqliteStore, create
from server_stub.coordinator.store_postgres import PostgresStore
from server_stub.coordinator.store_writer import Store, Transaction
from server_stub.coordinator.web.public import iso_day
from tests.helpers.both_stores import address, contents, key, plain
from tests.helpers.coordinator import Desk, Device, Lab, card
from tests.helpers.postgres import Postgres

WHO = st.integers(0, 2)
TEAM_ACTS = ["create", "join", "leave", "remove", "hand_over", "code"]
WORDS = st.text("abc é日\u2028'\"%?\\", min_size=1, max_size=40)


class BothStores(RuleBasedStateMachine):
    """Each rule runs the same work in both stores, with the same clock and random numbers."""

    server: Postgres
    template: str

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        file = Path(self.place.name) / "db"
        create(file)
        self.dsn = self.server.copy_of(self.template)
        self.stores: tuple[Store, Store] = (SqliteStore(file), PostgresStore(self.dsn))
        self.house = Desk(None, mail_host="127.0.0.1").house  # type: ignore[arg-type]
        self.now_s = 1_790_000_000.0
        self.steps = 0
        self.cuts = False
        self.codes: list[tuple[int, str, str]] = []
        self.devices: dict[int, str] = {}
        self.labs: dict[int, str] = {}
        self.grants: list[tuple[int, Any, str]] = []
        self.batches: list[tuple[int, ReceiptBatch]] = []
        self.sessions: dict[int, str] = {}
        self.applications: list[tuple[int, str]] = []
        self.certified = 0
        for who in (0, 1):
            self.account(who)
            self.ask_for_a_device(who)
            self.enrol(who, self.codes[-1], who)
            self.lab(who, 1.0 + who, 2)
            self.demand(who, 2)
            self.sign_in(who, True)
            self.team(who, "create", who)
            self.contact(who, 3, False)
            self.certify(who, who, 0)
        assert self.certified == 2
        assert len(self.devices) == len(self.labs) == len(self.sessions) == 2
        assert len(self.grants) == len(self.batches) == 4

    def both(self, work: Callable[[Desk], Any]) -> Any:
        """What the work answers in both, or the code of its refusal."""
        self.steps += 1
        self.now_s += 1.5
        answers = []
        for store, is_cut in zip(self.stores, (False, self.cuts), strict=True):
            answers.append(self._answer(store, work, is_cut))
        self.cuts = False
        assert answers[0] == answers[1]
        return answers[0]

    def _answer(self, store: Store, work: Callable[[Desk], Any], is_cut: bool) -> Any:
        left = [is_cut]

        def piece(tx: Transaction) -> Any:
            desk = Desk(tx, seed=self.steps, mail_host="127.0.0.1")
            desk.house, desk.now_s = self.house, self.now_s
            answer = work(desk)
            if left.pop(0) if left else False:
                for process in self.server.backends(self.dsn):
                    self.server.cut(process)
            return answer

        try:
            return plain(store.submit(piece).result(30))
        except GoblinError as refusal:
            return f"refused: {refusal.code}"

    # -- devices and labs --------------------------------------------------------------------

    @rule(who=WHO)
    def account(self, who: int) -> None:
        self.both(lambda desk: desk.account(f"ann-{who}"))

    @rule(who=WHO)
    def ask_for_a_device(self, who: int) -> None:
        message = EnrolStart(public_key_bytes(key(who)))
        reply = self.both(lambda desk: desk.ask(enrol.start, key(who), message, address(who)))
        if isinstance(reply, dict):
            self.codes.append((who, reply["user_code"], reply["enrolment"]))

    @precondition(lambda self: self.codes)
    @rule(data=st.data(), who=WHO, is_right=st.booleans())
    def decide_on_a_device(self, data: st.DataObject, who: int, is_right: bool) -> None:
        device, code, enrolment = data.draw(st.sampled_from(self.codes))
        self.enrol(who, (device, code if is_right else "BCDF-BCDF", enrolment), device)

    def enrol(self, who: int, told: tuple[int, str, str], device: int) -> None:
        """An account approves a code, and the device asks what became of it."""
        _, code, enrolment = told
        name = f"ann-{who}"
        found = self.both(
            lambda desk: enrol.approve(desk.house, desk.tx, desk.now_s, desk.rng, name, code)
        )
        if isinstance(found, dict) and found["device"]:
            self.devices[device] = found["device"]
        poll = EnrolPoll(enrolment)  # type: ignore[arg-type]
        self.both(lambda desk: desk.ask(enrol.poll, key(device), poll, address(device)))

    @rule(who=WHO, weight=st.sampled_from([0.5, 1.0, 3.0]), most=st.integers(1, 3))
    def lab(self, who: int, weight: float, most: int) -> None:
        public = public_key_bytes(key(100 + who)).hex()
        new = NewLab(f"lab-{who}", public, "https://a.example:1", weight=weight, max_cards=most)
        lab = self.both(lambda desk: operator.add_lab(desk.tx, desk.now_s, desk.rng, new))
        if not lab.startswith("refused"):
            self.labs[who] = lab

    @rule(who=WHO, weight=st.sampled_from([0.25, 7.0, 2000.0]), most=st.integers(-1, 2))
    def quota(self, who: int, weight: float, most: int) -> None:
        lab = self.labs.get(who, "lab_unknown")

        def work(desk: Desk) -> Any:
            person = dataclasses.replace(self.person(desk, who), role="operator")
            quotas.change(desk.tx, desk.now_s, person, lab, weight, most)
            return quotas.quotas(desk.tx, desk.now_s)

        self.both(work)

    @precondition(lambda self: self.labs)
    @rule(who=WHO, wants=st.integers(0, 3))
    def demand(self, who: int, wants: int) -> None:
        message = Demand(LabId(self.labs.get(who, "lab_unknown")), wants, 0)
        self.both(lambda desk: desk.ask(node.demand, key(100 + who), message, "192.0.2.9"))
        lab = message.lab
        self.both(lambda desk: desk.ask(node.revocations, key(100 + who), lab, "192.0.2.9"))

    @rule(who=st.integers(0, 1), wanted=st.integers(0, 7), holds=st.booleans())
    def contact(self, who: int, wanted: int, holds: bool) -> None:
        wants = {number for number in range(3) if wanted >> number & 1}
        self.demand(who, 3)
        held = tuple(GrantId(name) for device, _, name in self.grants if device == who and holds)
        message = Contact(
            cards=tuple(card(number) for number in sorted(wants)),
            holding=held[-16:],
            wants=tuple(sorted(wants)),
        )
        reply = self.both(lambda desk: desk.ask(contact.contact, key(who), message, address(who)))
        for offer in reply["grants"] if isinstance(reply, dict) else ():
            claims = self._claims(who, offer)
            self.grants.append((who, claims, claims.jti))
            self.pay_for((who, claims, claims.jti), 2.5)

    def _claims(self, who: int, offer: dict[str, Any]) -> Any:
        desk = Desk(None)  # type: ignore[arg-type]
        desk.house, desk.now_s = self.house, self.now_s
        return Device(desk, key(who), "", "").verified(offer["ticket"], offer["lab"])

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), is_again=st.booleans(), units=st.sampled_from([2.5, 1e-9, 1e9]))
    def pay(self, data: st.DataObject, is_again: bool, units: float) -> None:
        if not is_again:
            self.pay_for(data.draw(st.sampled_from(self.grants)), units)
            return
        who, batch = data.draw(st.sampled_from(self.batches))
        self.both(lambda desk: desk.ask(node.receipts, key(100 + who), batch, "192.0.2.9"))

    def pay_for(self, grant: tuple[int, Any, str], units: float) -> None:
        device, claims, _ = grant
        who = next((one for one, lab in self.labs.items() if lab == claims.aud), 0)
        desk = Desk(None, seed=10_000 + self.steps)  # type: ignore[arg-type]
        desk.now_s = self.now_s
        lab = Lab(desk, key(100 + who), claims.aud)
        receipt = lab.receipt(Device(desk, key(device), "", ""), claims, units=units)
        batch = ReceiptBatch(claims.aud, (receipt,))
        self.batches.append((who, batch))
        self.both(lambda desk: desk.ask(node.receipts, key(100 + who), batch, "192.0.2.9"))

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), is_device=st.booleans())
    def revoke(self, data: st.DataObject, is_device: bool) -> None:
        who, _, grant = data.draw(st.sampled_from(self.grants))
        if is_device:
            device = DeviceId(self.devices.get(who, "device_unknown"))
            self.both(lambda desk: operator.revoke_device(desk.tx, desk.now_s, device))
        else:
            self.both(lambda desk: operator.revoke_grant(desk.tx, desk.now_s, GrantId(grant)))

    @rule(number=st.integers(0, 5))
    def nonce(self, number: int) -> None:
        caller = Caller(bytes(32), bytes([number] * 16), self.now_s + 20, "")
        self.both(lambda desk: use_nonce(desk.tx, desk.now_s, caller))

    @rule(passed_s=st.sampled_from([60.0, 4000.0, 90_000.0]))
    def wait(self, passed_s: float) -> None:
        self.now_s += passed_s

    # -- people ------------------------------------------------------------------------------

    @rule(who=WHO, is_right=st.booleans())
    def sign_in(self, who: int, is_right: bool) -> None:
        def work(desk: Desk) -> Any:
            mailbox = f"p{who}@example.org"
            ask = signin.ask_code(
                desk.house, desk.tx, desk.now_s, desk.rng, mailbox, "en", "192.0.2.1"
            )
            row = desk.tx.row("SELECT words_letter FROM mail ORDER BY number DESC LIMIT 1")
            digits = "".join(one for one in (row or ("",))[0] if one.isdecimal())[:8]
            code = digits if is_right else "00000000"
            return signin.redeem(desk.house, desk.tx, desk.now_s, desk.rng, ask, code)

        found = self.both(work)
        if found.startswith("session_"):
            self.sessions[who] = found

    def person(self, desk: Desk, who: int) -> signin.Person:
        session = self.sessions.get(who, "")
        found = signin.person_of(desk.house, desk.tx, desk.now_s, session)
        if found is None:
            raise GoblinError("operator_only")
        return found

    @rule(who=WHO, words=WORDS)
    def apply(self, who: int, words: str) -> None:
        fields = ("person", "affiliation", "project", "purpose", "ethics")
        given = {field: f"{words} {field} of at least so many letters" * 3 for field in fields}
        given["person"], given["affiliation"] = f"Ann {words}"[:40], f"House {words}"[:40]
        found = self.both(
            lambda desk: applications.apply(
                desk.tx, desk.now_s, desk.rng, self.person(desk, who), given
            )
        )
        if not found.startswith("refused"):
            self.applications.append((who, found))

    @precondition(lambda self: self.applications)
    @rule(data=st.data(), who=WHO, is_approved=st.booleans())
    def decide(self, data: st.DataObject, who: int, is_approved: bool) -> None:
        owner, name = data.draw(st.sampled_from(self.applications))

        def work(desk: Desk) -> Any:
            person = dataclasses.replace(self.person(desk, who), role="operator")
            applications.decide(desk.tx, desk.now_s, person, name, is_approved, "Good work.")
            return applications.find(desk.tx, name)

        self.both(work)
        public = public_key_bytes(key(200 + owner)).hex()
        new = NewLab(f"own-{owner}", public, "https://b.example:1")
        self.both(
            lambda desk: applications.register_lab(
                desk.tx, desk.now_s, desk.rng, self.person(desk, owner), name, new
            )
        )

    @rule(who=WHO, name=st.sampled_from(["ann-0", "cat", "Émile", "z" * 64]), words=WORDS)
    def change_and_complain(self, who: int, name: str, words: str) -> None:
        self.both(
            lambda desk: people.change(
                desk.tx, desk.now_s, self.person(desk, who), name, "fr", who % 2 == 0
            )
        )
        text = f"{words} is what happened to my machine last night."
        lab = self.labs.get(who, "")
        self.both(
            lambda desk: abuse.report(
                desk.house, desk.tx, desk.now_s, desk.rng, None, address(who), lab, text
            )
        )

    @precondition(lambda self: self.labs)
    @rule(who=WHO, lab=WHO, since=st.integers(-3, 1))
    def certify(self, who: int, lab: int, since: int) -> None:
        """The owner of a device asks for a certificate, and anyone looks it up."""
        name, today = self.labs.get(lab, "lab_unknown"), ledger.day_of(self.now_s)
        first, last = iso_day(today + since), iso_day(today)

        def work(desk: Desk) -> Any:
            row = desk.tx.row("SELECT account FROM account WHERE name = ?", f"ann-{who}")
            if row is None:
                raise GoblinError("operator_only")
            person = dataclasses.replace(self.person(desk, who), account=row[0])
            code = certificates.issue(desk.tx, desk.now_s, desk.rng, person, name, first, last)
            found = certificates.find(desk.tx, code)
            return [
                certificates.own(desk.tx, person.account),
                certificates.labs_of(desk.tx, person.account),
                certificates.seal(desk.house, found),
            ]

        self.certified += isinstance(self.both(work), list)

    @rule(who=WHO, act=st.sampled_from(TEAM_ACTS), other=WHO)
    def team(self, who: int, act: str, other: int) -> None:
        """Owners of devices make, join and leave teams, which shows in what they earn later."""

        def work(desk: Desk) -> Any:
            row = desk.tx.row("SELECT account FROM account WHERE name = ?", f"ann-{who}")
            if row is None:
                raise GoblinError("operator_only")
            person = dataclasses.replace(self.person(desk, who), account=row[0])
            if act == "create":
                teams.create(desk.tx, desk.now_s, desk.rng, person, f"team-{other}")
            elif act == "join":
                code = desk.tx.row("SELECT code FROM team WHERE name = ?", f"team-{other}")
                teams.join(desk.tx, desk.now_s, person, code[0] if code else "")
            elif act == "remove":
                captains.remove(desk.tx, desk.now_s, desk.rng, person, f"ann-{other}")
            elif act == "hand_over":
                captains.hand_over(desk.tx, desk.now_s, person, f"ann-{other}")
            elif act == "code":
                captains.new_code(desk.tx, desk.now_s, desk.rng, person)
            else:
                teams.leave(desk.tx, desk.now_s, person.account)
            return [
                teams.own(desk.tx, person.account),
                teams.ranked(desk.tx, 5),
                captains.members(desk.tx, person),
            ]

        self.both(work)

    @rule(who=WHO)
    def leave(self, who: int) -> None:
        self.both(lambda desk: people.export(desk.tx, desk.now_s, self.person(desk, who)))
        self.both(lambda desk: people.close(desk.tx, desk.now_s, self.person(desk, who)))

    @rule()
    def post(self) -> None:
        def work(desk: Desk) -> Any:
            found = outbox.due(desk.tx, desk.now_s, 3)
            for letter in found[:1]:
                outbox.put_off(desk.tx, desk.now_s, letter)
            for letter in found[1:2]:
                outbox.sent(desk.tx, letter)
            outbox.given_up(desk.tx, desk.now_s)
            return [dataclasses.replace(letter, number=0) for letter in found]

        self.both(work)

    @rule()
    def look(self) -> None:
        self.both(lambda desk: operator.status(desk.tx, desk.now_s, "1", bytes(32)))
        for shown in (
            operator.list_accounts, operator.list_labs, abuse.open_reports,
            applications.applications, ledger.audit_ledger, audit.verify_chain,
        ):  # fmt: skip
            self.both(lambda desk, shown=shown: shown(desk.tx))
        self.both(lambda desk: applications.labs(desk.tx, desk.now_s))
        self.both(lambda desk: people.leaders(desk.tx, 5))
        for group in ("owner", "device", "lab", "day"):
            self.both(lambda desk, group=group: ledger.credits_by(desk.tx, group))

    @rule()
    def cut_the_next(self) -> None:
        self.cuts = True

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        try:
            tables = [store.submit(contents).result(30) for store in self.stores]
            assert tables[0] == tables[1]
        finally:
            for store in self.stores:
                store.close()
            self.place.cleanup()
            self.server.drop(self.dsn)


def test_both_stores_answer_and_keep_the_same(server: Postgres, prepared: str) -> None:
    machine = type("Machine", (BothStores,), {"server": server, "template": prepared})
    machine.TestCase.settings = settings(max_examples=8, stateful_step_count=40)  # type: ignore[attr-defined]
    machine.TestCase().runTest()  # type: ignore[attr-defined]


def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    create(tmp_path / "db")
    store = SqliteStore(tmp_path / "db")
    try:
        before = store.submit(contents).result(10)
        store.submit(lambda tx: tx.execute("UPDATE counter SET value = value + 1")).result(10)
        assert store.submit(contents).result(10) != before
    finally:
        store.close()
