"""Estimates: the slowest resource sets the pace."""

from __future__ import annotations

import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.estimate import CardRates, NodeRates, alone_s, estimate, require_gain
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.tiles import ProductPlan, plan_product

FAST = NodeRates(2e11, 1e9, 1e9)


def product(size: int) -> ProductPlan:
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", (size, size))) for _ in range(2)]
    return plan_product(builder.build([builder.add("matmul", values)]), Limits(512 << 20))


def test_arithmetic_bound() -> None:
    plan = product(16384)
    found = estimate(plan, FAST)
    flops = 2 * 16384**3
    assert alone_s(plan, FAST) == pytest.approx(flops / 2e11)
    assert flops / 2e11 < found.seconds < 1.05 * flops / 2e11
    assert 0.95 < found.gain < 1
    assert found.bytes_out == 4 * 16384**2


def test_disk_bound() -> None:
    plan = product(2048)
    slow = NodeRates(1e15, 1e6, 1e6)
    found = estimate(plan, slow)
    total = plan.summary()
    assert found.seconds == pytest.approx((total.bytes_in + total.bytes_out) / 1e6)
    assert found.gain == pytest.approx(1)


def test_cards_share_the_tasks() -> None:
    plan = product(16384)
    node = NodeRates(1e11, 1e10, 1e10, link_bytes_per_s=1e12)
    one = estimate(plan, node, [CardRates(1e12)], executor="grid")
    four = estimate(plan, node, [CardRates(1e12)] * 4, executor="grid", start_s=3.0)
    assert one.seconds == pytest.approx(2 * 16384**3 / 1e12, rel=1e-3)
    assert four.seconds == pytest.approx(one.seconds / 4 + 3, rel=1e-3)
    assert four.gain > one.gain > 1
    require_gain(four, forced=False)


def test_a_slow_link_is_no_gain() -> None:
    plan = product(2048)
    node = NodeRates(1e11, 1e10, 1e10, link_bytes_per_s=1e6)
    found = estimate(plan, node, [CardRates(1e14)], executor="grid")
    assert found.gain < 1
    with pytest.raises(PlanError) as caught:
        require_gain(found, forced=False)
    assert caught.value.code == "plan_no_gain"
    require_gain(found, forced=True)
    require_gain(estimate(plan, node), forced=False)


def test_nobody_is_there() -> None:
    found = estimate(product(2048), FAST, [], executor="grid")
    assert found.seconds == float("inf")
    assert found.gain == 0


def test_one_task_takes_as_long_as_on_the_fastest_card() -> None:
    plan = product(1024)
    assert plan.count == 1
    node = NodeRates(1e11, 1e12, 1e12, 1e13, 1e13)
    cards = [CardRates(1e10)] * 100
    found = estimate(plan, node, cards, executor="grid")
    assert found.seconds == pytest.approx(2 * 1024**3 / 1e10)
