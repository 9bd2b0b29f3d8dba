"""The operator's verbs."""

from __future__ import annotations

from typing import Any

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import audit
from server_stub.coordinator.handlers import node, operator
from server_stub.coordinator.handlers.operator import NewLab
from tests.helpers.coordinator import Desk
from tests.helpers.coordinator_people import person


@pytest.mark.parametrize(
    "name", ["", "Ann", "a b", "ann@example.org", "x" * 65, "ann\n", "é", "../x"]
)
def test_names(desk: Desk, name: str) -> None:
    with pytest.raises(CoordinatorError) as caught:
        operator.add_account(desk.tx, desk.now_s, desk.rng, name)
    assert caught.value.code == "coordinator_name_malformed"


def test_accounts(desk: Desk) -> None:
    desk.device("bob")
    desk.account("ann")
    with pytest.raises(CoordinatorError) as caught:
        desk.account("ann")
    assert caught.value.code == "coordinator_name_taken"
    rows = operator.list_accounts(desk.tx)
    assert [(row.name, row.devices, row.units) for row in rows] == [
        ("ann", 0, 0.0),
        ("bob", 1, 0.0),
    ]


GOOD: dict[str, Any] = {
    "name": "lab-a",
    "public_key": "ab" * 32,
    "address": "https://lab.example:8443",
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("public_key", "AB" * 32),
        ("public_key", "ab" * 31),
        ("address", "lab.example:8443"),
        ("address", "https://lab.example/path"),
        ("address", "https://user@lab"),
        ("address", "https://a b"),
        ("certificate_sha256", "12"),
        ("weight", 0.0),
        ("weight", -1.0),
        ("weight", float("nan")),
        ("weight", float("inf")),
        ("max_cards", -1),
    ],
)
def test_malformed_labs(desk: Desk, field: str, value: object) -> None:
    with pytest.raises(CoordinatorError) as caught:
        operator.add_lab(desk.tx, desk.now_s, desk.rng, NewLab(**{**GOOD, field: value}))
    assert caught.value.code == "coordinator_lab_malformed"
    assert operator.list_labs(desk.tx) == []


@pytest.mark.parametrize("changed", [{"name": "lab-b"}, {"public_key": "cd" * 32}])
def test_a_lab_is_registered_once(desk: Desk, changed: dict[str, Any]) -> None:
    operator.add_lab(desk.tx, desk.now_s, desk.rng, NewLab(**GOOD))
    with pytest.raises(CoordinatorError) as caught:
        operator.add_lab(desk.tx, desk.now_s, desk.rng, NewLab(**{**GOOD, **changed}))
    assert caught.value.code == "coordinator_name_taken"
    (row,) = operator.list_labs(desk.tx)
    assert (row.name, row.public_key, row.address) == ("lab-a", "ab" * 32, GOOD["address"])


def test_revoking_what_is_not_there(desk: Desk) -> None:
    for revoke in (operator.revoke_device, operator.revoke_grant):
        with pytest.raises(CoordinatorError) as caught:
            revoke(desk.tx, desk.now_s, "x_a")  # type: ignore[operator]
        assert caught.value.code == "coordinator_subject_unknown"


def test_status_counts(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    receipt = lab.receipt(device, device.grant())
    desk.ask(node.receipts, lab.key, node.ReceiptBatch(lab.name, (receipt,)), "")
    found = operator.status(desk.tx, desk.now_s, "0.1.0", desk.house.public_key)
    counts = (found.accounts, found.devices, found.labs, found.grants, found.receipts, found.units)
    assert counts == (1, 1, 1, 1, 1, 2.5)
    assert found.coordinator_key == desk.house.public_key.hex()


def test_every_verb_is_recorded(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    grant = device.grant()
    operator.revoke_grant(desk.tx, desk.now_s, grant.jti)
    operator.revoke_device(desk.tx, desk.now_s, device.name)  # type: ignore[arg-type]
    rows = desk.tx.rows("SELECT action, subject FROM audit ORDER BY number")
    account = desk.tx.row("SELECT account FROM account")
    assert account is not None
    assert rows == [
        ("lab_add", lab.name),
        ("account_add", account[0]),
        ("approve", device.name),
        ("grant_revoke", grant.jti),
        ("device_revoke", device.name),
    ]
    assert audit.verify_chain(desk.tx) is None


def test_an_operator_is_made_and_removed(desk: Desk) -> None:
    ann = person(desk)
    assert operator.make_operator(desk.tx, desk.now_s, ann.mailbox) == ann.account
    assert operator.remove_operator(desk.tx, desk.now_s, ann.mailbox) == ann.account
    assert desk.tx.row("SELECT role FROM account") == ("contributor",)
    for mailbox in (ann.mailbox, "nobody@example.org"):
        with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
            operator.remove_operator(desk.tx, desk.now_s, mailbox)
    actions = [row[3:] for row in audit.latest(desk.tx, 2)]
    assert actions == [("operator_remove", ann.account), ("operator_add", ann.account)]
