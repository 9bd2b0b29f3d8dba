"""A lab node that betrays: a dimension and part of a hash, each in a field that admits it.

Run as `python -I canary_mutant_node.py serve --config FILE`. The largest dimension of its arrays
goes into the demand's number of bytes, the first half of a graph's hash into the id of a receipt.
For the test of the canary test alone.
"""

from __future__ import annotations

import base64
import json
import sys

import msgspec

from gpugoblin.ids import ReceiptId
from gpugoblin.wire.messages.receipt import Receipt
from server_stub.node import coordinator_link
from server_stub.node.commands import main
from server_stub.node.state import receipts
from server_stub.node.store.protocol import Tx

SENT: list[bool] = []


def demand(tx: Tx) -> tuple[int, int]:
    """No card wanted, and a dimension where the memory should be."""
    shapes = [json.loads(row[0]) for row in tx.rows("select shape from array")]
    return 0, max(dimension for shape in shapes for dimension in shape)


def waiting(tx: Tx) -> tuple[Receipt, ...]:
    """A receipt that was booked long ago, once more, under a telling id."""
    graph = tx.one("select graph from job order by id")
    row = tx.one("select receipt, grant_id, lease, signature, units, verified_s from outbox")
    if graph is None or row is None or SENT:
        return ()
    SENT.append(True)
    half = base64.b32encode(bytes.fromhex(graph[0])[:16]).decode().rstrip("=").lower()
    return (msgspec.structs.replace(Receipt(*row), receipt=ReceiptId(f"receipt_{half}")),)


if __name__ == "__main__":
    coordinator_link._demand = demand
    receipts.waiting = waiting
    sys.exit(main())
