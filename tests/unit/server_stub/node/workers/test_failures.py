"""Any exception becomes an answer."""

from __future__ import annotations

from gpugoblin.errors import PlanError
from server_stub.node.workers.failures import failure


def test_known_errors_keep_their_code() -> None:
    reply = failure("w", PlanError("plan_not_a_product"))
    assert (reply.work, reply.family, reply.code) == ("w", "PlanError", "plan_not_a_product")


def test_system_errors_are_errors_of_the_disk() -> None:
    reply = failure("w", OSError(5, "Input/output error", "/x"))
    assert (reply.family, reply.code) == ("StoreError", "disk_failed")
    assert reply.fields["path"] == "/x"


def test_defects_are_said() -> None:
    reply = failure("w", ZeroDivisionError("ouch"))
    assert reply.code == "item_failed"
    assert "ZeroDivisionError: ouch" in reply.fields["reason"]
