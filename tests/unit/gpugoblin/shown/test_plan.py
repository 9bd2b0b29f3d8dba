"""What is shown of a plan."""

from __future__ import annotations

import msgspec
import pytest

from gpugoblin.shown.plan import PlanView
from gpugoblin.wire.messages.job import PlanReply

PLAN = PlanReply(
    kind="product", tasks=4, tile=(2, 2), flops=1000, verify_flops=50, bytes_in=100, bytes_out=100,
    memory_bound_bytes=1000, node_memory_bytes=1000, estimate_s=0.5, alone_s=1.0, gain=2.0,
    executor="local",
)  # fmt: skip


def test_a_plan_prints_its_figures() -> None:
    view = PlanView.of(PLAN)
    text = str(view)
    for words in ("4 (product, 2 x 2)", "1 kflop", "check 5 %", "100 B", "about 0.5 s", "gain 2"):
        assert words in text
    assert "\x1b" not in text
    assert (view.tasks, view.gain, view.executor) == (4, 2.0, "local")


def test_a_plan_is_a_picture_too() -> None:
    view = PlanView.of(PLAN)
    svg = view._repr_svg_()
    assert svg.startswith("<svg ")
    assert svg == view.svg()
    for words in ("plan: 4 tasks (product)", "1 kflop", "100 B", "gain 2", "node alone"):
        assert words in svg


@pytest.mark.parametrize("executor", ["local", "grid"])
def test_a_plan_without_work_has_no_share_of_checks(executor: str) -> None:
    rows = dict(PlanView.of(msgspec.structs.replace(PLAN, flops=0, executor=executor)).rows())
    assert rows["work"] == "0 flop, check 0 % of it"
    assert ("grid" in rows["computed"]) == (executor == "grid")
