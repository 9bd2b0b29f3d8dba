"""Nonces are used once and swept away."""

from __future__ import annotations

import pytest

from gpugoblin.errors import WireError
from server_stub.coordinator.handlers.common import use_nonce
from server_stub.coordinator.house import Caller
from tests.helpers.coordinator import Desk


def test_a_nonce_is_used_once_by_each_key(desk: Desk) -> None:
    caller = Caller(bytes(32), b"nonce", desk.now_s + 600, "")
    use_nonce(desk.tx, desk.now_s, caller)
    with pytest.raises(WireError) as caught:
        use_nonce(desk.tx, desk.now_s + 599, caller)
    assert caught.value.code == "signature_replayed"
    use_nonce(desk.tx, desk.now_s, Caller(bytes([1]) * 32, b"nonce", desk.now_s + 600, ""))


def test_old_nonces_are_swept(desk: Desk) -> None:
    for number in range(200):
        caller = Caller(bytes(32), bytes([number]), desk.now_s + 600, "")
        use_nonce(desk.tx, desk.now_s, caller)
    for number in range(4):
        caller = Caller(bytes([2]) * 32, bytes([number]), desk.now_s + 1300, "")
        use_nonce(desk.tx, desk.now_s + 700, caller)
    rows = desk.tx.row("SELECT COUNT(*) FROM nonce")
    assert rows == (4,)
