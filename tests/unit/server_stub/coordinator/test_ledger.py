"""The ledger: always zero in sum, balances as posted, nothing ever changed."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpugoblin.wire.messages.receipt import Receipt, ReceiptBatch
from server_stub.coordinator import ledger
from server_stub.coordinator.handlers import node
from server_stub.coordinator.handlers.operator import revoke_device
from server_stub.coordinator.ledger import MICRO, to_micro
from tests.helpers.coordinator import Desk, Device, Lab, memory


class LedgerMachine(RuleBasedStateMachine):
    """Labs send receipts in any order, twice, forged, for others' grants; days pass."""

    def __init__(self) -> None:
        super().__init__()
        self.context = memory()
        self.desk = Desk(self.context.__enter__(), max_units_per_lab_day=1000.0)
        self.labs: list[Lab] = [self.desk.lab(f"lab-{letter}") for letter in "ab"]
        self.devices: list[Device] = []
        self.sent: list[tuple[Lab, Receipt]] = []
        self.owed: dict[str, tuple[str, str, str, int]] = {}
        self.leases: set[tuple[str, str]] = set()

    def teardown(self) -> None:
        self.context.__exit__(None, None, None)

    @rule(owner=st.sampled_from(["ann", "bob"]))
    def enrol(self, owner: str) -> None:
        if len(self.devices) < 4:
            self.devices.append(self.desk.device(owner))

    @rule(days=st.integers(1, 3))
    def days_pass(self, days: int) -> None:
        self.desk.now_s += days * 86_400

    @precondition(lambda self: self.devices)
    @rule(
        data=st.data(),
        units=st.floats(1e-9, 600.0),
        kind=st.sampled_from(["good", "good", "forged", "other lab", "same lease"]),
    )
    def send_receipt(self, data: st.DataObject, units: float, kind: str) -> None:
        device = data.draw(st.sampled_from(self.devices))
        for lab in self.labs:
            lab.demand(100)
        (offer, *_) = device.contact((0,)).grants or (None,)
        if offer is None:
            return
        lab = next(lab for lab in self.labs if lab.name == offer.lab)
        receipt = lab.receipt(device, device.verified(offer.ticket, offer.lab), units=units)
        if kind == "forged":
            receipt = lab.receipt(device, device.verified(offer.ticket, offer.lab),
                                  device_signature=bytes(64))  # fmt: skip
        elif kind == "same lease" and self.sent:
            receipt = lab.receipt(
                device, device.verified(offer.ticket, offer.lab), lease=self.sent[-1][1].lease
            )
        sender = lab
        if kind == "other lab":
            sender = next(other for other in self.labs if other is not lab)
        self.send(sender, receipt, device, lab is sender and kind != "forged")

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        lab, receipt = data.draw(st.sampled_from(self.sent))
        before = self.totals()
        self.desk.ask(node.receipts, lab.key, ReceiptBatch(lab.name, (receipt,)), "")
        if receipt.receipt in self.owed:
            assert self.totals() == before

    @precondition(lambda self: self.devices)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        device = data.draw(st.sampled_from(self.devices))
        self.devices.remove(device)
        revoke_device(self.desk.tx, self.desk.now_s, device.name)  # type: ignore[arg-type]

    def send(self, lab: Lab, receipt: Receipt, device: Device, genuine: bool) -> None:
        reply = self.desk.ask(node.receipts, lab.key, ReceiptBatch(lab.name, (receipt,)), "")
        row = self.desk.tx.row("SELECT account FROM device WHERE device = ?", device.name)
        assert row is not None
        fresh = (lab.name, receipt.lease) not in self.leases
        if reply.booked:
            assert genuine
            assert fresh
            self.leases.add((lab.name, receipt.lease))
            self.owed[receipt.receipt] = (row[0], device.name, lab.name, to_micro(receipt.units))
            self.sent.append((lab, receipt))
        else:
            over = any(refusal.code == "over_quota" for refusal in reply.refused)
            assert not genuine or not fresh or over

    def totals(self) -> list[tuple[object, ...]]:
        return self.desk.tx.rows("SELECT holder, micro_units FROM balance ORDER BY holder")

    @invariant()
    def sums_are_zero_and_balances_are_what_was_posted(self) -> None:
        assert ledger.audit_ledger(self.desk.tx) == []
        assert sum(int(row[1]) for row in self.totals()) == 0  # type: ignore[call-overload]

    @invariant()
    def everyone_has_exactly_what_was_booked(self) -> None:
        expected: dict[str, int] = {}
        for account, _, lab, micro in self.owed.values():
            expected[f"account:{account}"] = expected.get(f"account:{account}", 0) + micro
            expected[f"lab:{lab}"] = expected.get(f"lab:{lab}", 0) - micro
        assert dict(self.totals()) == expected  # type: ignore[arg-type]

    @invariant()
    def every_grouping_has_the_same_sum(self) -> None:
        total = sum(micro for *_, micro in self.owed.values())
        for group in ("owner", "device", "lab", "day"):
            units = sum(credit.units for credit in ledger.credits_by(self.desk.tx, group))
            assert units == pytest.approx(total / MICRO)


LedgerMachine.TestCase.settings = hypothesis_settings(
    max_examples=30, stateful_step_count=25, deadline=None, database=None
)
TestLedger = LedgerMachine.TestCase


def booked(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    receipt = lab.receipt(device, device.grant())
    desk.ask(node.receipts, lab.key, ReceiptBatch(lab.name, (receipt,)), "")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE posting SET micro_units = micro_units * 2",
        "DELETE FROM posting",
        "UPDATE entry SET day = 1",
        "DELETE FROM entry",
        "UPDATE receipt SET lease = 'lease_b'",
        "DELETE FROM receipt",
    ],
)
def test_entries_cannot_be_changed(desk: Desk, sql: str) -> None:
    booked(desk)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        desk.tx.execute(sql)


def test_the_audit_finds_a_changed_balance_and_a_one_sided_entry(desk: Desk) -> None:
    booked(desk)
    desk.tx.execute("UPDATE balance SET micro_units = micro_units + 1 WHERE holder LIKE 'account%'")
    (fault,) = ledger.audit_ledger(desk.tx)
    assert fault.balance_micro_units == fault.posted_micro_units + 1
    desk.tx.execute("UPDATE balance SET micro_units = micro_units - 1 WHERE holder LIKE 'account%'")
    desk.tx.execute("INSERT INTO posting VALUES (1, 'account:x', 5)")
    desk.tx.execute("INSERT INTO balance VALUES ('account:x', 5)")
    assert [fault.holder for fault in ledger.audit_ledger(desk.tx)] == ["(all)"]


def test_a_balance_never_overflows(desk: Desk) -> None:
    booked(desk)
    desk.tx.execute("UPDATE balance SET micro_units = ? WHERE holder LIKE 'account%'", 2**62)
    lab_row = desk.tx.row("SELECT lab, device, account FROM entry")
    assert lab_row is not None
    lab, device, account = lab_row
    done = ledger.book(
        desk.tx, receipt="receipt_b", account=account, device=device, lab=lab, day=1, micro_units=1
    )
    assert done is False
    assert desk.tx.row("SELECT COUNT(*) FROM entry") == (1,)


@pytest.mark.parametrize(
    ("units", "micro"),
    [(1e-12, 1), (1e-6, 1), (2.5, 2_500_000), (1e9, 10**15), (0.1 + 0.2, 300_000)],
)
def test_units_are_whole_millionths(units: float, micro: int) -> None:
    assert to_micro(units) == micro
