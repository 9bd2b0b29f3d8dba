"""A device learns of the machines of its own account, and of no other."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.account import Machines, MachinesReply
from gpugoblin.wire.messages.receipt import ReceiptBatch
from gpugoblin.wire.signing import fingerprint, public_key_bytes
from server_stub.coordinator.handlers import node, own_machines
from server_stub.coordinator.handlers.operator import revoke_device
from tests.helpers.coordinator import Desk


def asked(desk: Desk, key: Ed25519PrivateKey) -> MachinesReply:
    reply = desk.ask(own_machines.machines, key, Machines(), "192.0.2.9")
    assert isinstance(reply, MachinesReply)
    return reply


def test_all_machines_of_the_account_and_no_other(desk: Desk) -> None:
    lab, first, second, other = desk.lab(), desk.device(), desk.device(), desk.device("bob")
    batch = ReceiptBatch(lab.name, (lab.receipt(first, first.grant()),))
    desk.ask(node.receipts, lab.key, batch, "192.0.2.9")
    revoke_device(desk.tx, desk.now_s, second.name)  # type: ignore[arg-type] # an id
    reply = asked(desk, first.key)
    prints = [fingerprint(public_key_bytes(one.key)) for one in (first, second)]
    assert [one.fingerprint for one in reply.machines] == prints
    mine, ended = reply.machines
    assert (mine.is_revoked, mine.cards, mine.credits) == (False, 1, 2.5)
    assert ended.is_revoked
    assert len(asked(desk, other.key).machines) == 1
    for secret in ("ann", "lab-a", lab.name, "example.org"):
        assert secret.encode() not in encode(reply)


def test_strangers_and_ended_machines_are_told_nothing(desk: Desk) -> None:
    refused = desk.refused
    stranger, device = Ed25519PrivateKey.generate(), desk.device()
    assert refused(own_machines.machines, stranger, Machines()) == "device_unknown"
    revoke_device(desk.tx, desk.now_s, device.name)  # type: ignore[arg-type] # an id
    assert refused(own_machines.machines, device.key, Machines()) == "device_revoked"
